#include "graph/attention_pattern.h"

#include <gtest/gtest.h>

#include "graph/lower.h"
#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr DataType kF16 = DataType::kFloat16;
constexpr DataType kI64 = DataType::kInt64;

// x [2, 3, 5, 8] with cos and sin [2, 1, 5, 8]; what a test leaves out is as exporters write it.
struct Rotary {
  DataType type = kF32;
  Shape x{2, 3, 5, 8};
  Shape angles{2, 1, 5, 8};
  bool slices = false;
  bool swaps_halves = false;  // wrong: (-first half, second half)
  bool swaps_operands = false;
  int64_t axis = -1;

  std::string LoweredOps() const {
    GraphBuilder b;
    b.Input("x", type, x).Input("cos", type, angles).Input("sin", type, angles);
    Shape half = x;
    half.back() /= 2;
    b.Result("first", type, half).Result("second", type, half).Result("minus", type, half);
    b.Result("turned", type, x);
    if (slices) {
      b.ConstantValues<int64_t>("zero", kI64, {1}, {0})
          .ConstantValues<int64_t>("end", kI64, {1}, {INT64_MAX});
      b.ConstantValues<int64_t>("middle", kI64, {1}, {half.back()})
          .ConstantValues<int64_t>("last", kI64, {1}, {3});
      b.Node("Slice", {"x", "zero", "middle", "last"}, {"first"});
      b.Node("Slice", {"x", "middle", "end", "last"}, {"second"});
    } else {
      b.Node("Split", {"x"}, {"first", "second"}, {{"axis", axis}, {"num_outputs", int64_t{2}}});
    }
    b.Node("Neg", {swaps_halves ? "first" : "second"}, {"minus"});
    b.Node("Concat", {"minus", swaps_halves ? "second" : "first"}, {"turned"}, {{"axis", axis}});
    b.Node("Mul", {"x", "cos"}, {"a"});
    b.Result("b", type, x).Node("Mul", {"sin", "turned"}, {"b"});
    const char* const left = swaps_operands ? "b" : "a";
    const char* const right = swaps_operands ? "a" : "b";
    b.Node("Add", {left, right}, {"y"}).Output("y");
    return Ops(Lower(b.graph()));
  }
};

constexpr char kPlainRotary[] = "Split Neg Concat Mul Mul Add";

TEST(RotaryEmbeddingPattern, IsOneNode) {
  EXPECT_EQ(Rotary().LoweredOps(), "RotaryEmbedding");
  EXPECT_EQ(Rotary{.slices = true}.LoweredOps(), "RotaryEmbedding");
  EXPECT_EQ(Rotary{.swaps_operands = true}.LoweredOps(), "RotaryEmbedding");
  EXPECT_EQ((Rotary{.angles = {5, 8}}.LoweredOps()), "RotaryEmbedding");
  EXPECT_EQ((Rotary{.x = {-1, 3, -1, 8}, .angles = {-1, 1, -1, 8}}.LoweredOps()),
            "RotaryEmbedding");
  EXPECT_EQ(Rotary{.type = kF16}.LoweredOps(), "Cast Cast Cast RotaryEmbedding Cast");
}

TEST(RotaryEmbeddingPattern, WhatComputesSomethingElseIsLeft) {
  EXPECT_EQ(Rotary{.swaps_halves = true}.LoweredOps(), kPlainRotary);
  EXPECT_EQ(Rotary{.axis = 2}.LoweredOps(), kPlainRotary);
  EXPECT_EQ((Rotary{.angles = {2, 1, 5, 1}}.LoweredOps()), kPlainRotary) << "one angle for all";
  EXPECT_EQ((Rotary{.x = {1, 3, 5, 8}}.LoweredOps()), kPlainRotary) << "the result has two batches";
  EXPECT_EQ((Rotary{.x = {1, 3, 5, 8}, .angles = {-1, 1, 5, 8}}.LoweredOps()), kPlainRotary);
  EXPECT_EQ(Rotary{.type = DataType::kFloat64}.LoweredOps(), kPlainRotary);
}

// q [2, 6, 5, 8], k and v [2, 6 or 3, 7, 8].
struct Heads {
  DataType type = kF32;
  int64_t batch = 2;
  int64_t q_size = 8;
  int64_t kv_heads = 6;  // fewer: k and v are repeated
  std::string scale = "Mul";
  bool scales_q_and_k = false;
  std::optional<Shape> bias = Shape{2, 1, 5, 7};
  bool bias_first = false;
  std::vector<int64_t> expand{1, 1, 2, 1, 1};
  std::vector<int64_t> join{0, 6, -1, 8};
  std::vector<int64_t> perm{0, 1, 3, 2};
  int64_t axis = -1;
  bool returns_probabilities = false;
  std::optional<Shape> y;  // else [batch, 6, 5, q_size]

  Graph Lowered() const {
    GraphBuilder b;
    b.Input("q", type, Shape{batch, 6, 5, q_size});
    b.Input("k", type, Shape{batch, kv_heads, 7, q_size})
        .Input("v", type, Shape{batch, kv_heads, 7, q_size});
    if (bias) b.Input("bias", type, bias);
    if (type == kF16) {
      b.ConstantValues<uint16_t>("scale", kF16, {}, {0x3400});  // 0.25
    } else {
      b.ConstantValues<float>("scale", kF32, {}, {0.25F});
    }
    b.ConstantValues<int64_t>("two", kI64, {1}, {2})
        .ConstantValues<int64_t>("expand", kI64, {5}, expand);
    b.ConstantValues<int64_t>("join", kI64, {4}, join);
    std::string k = "k";
    std::string v = "v";
    if (kv_heads != 6) {
      for (std::string* x : {&k, &v}) {
        b.Result(*x + "5", type, Shape{batch, kv_heads, 1, 7, q_size});
        b.Result(*x + "5r", type, Shape{batch, kv_heads, 2, 7, q_size});
        b.Result(*x + "r", type, Shape{batch, 6, 7, q_size});
        b.Node("Unsqueeze", {*x, "two"}, {*x + "5"})
            .Node("Expand", {*x + "5", "expand"}, {*x + "5r"});
        b.Node("Reshape", {*x + "5r", "join"}, {*x + "r"});
        *x += 'r';
      }
    }
    b.Result("kt", type, Shape{batch, 6, q_size, 7}).Result("scores", type, Shape{batch, 6, 5, 7});
    b.Node("Transpose", {k}, {"kt"}, {{"perm", perm}});
    std::string q = "q";
    std::string kt = "kt";
    if (scales_q_and_k) {
      b.Node("Mul", {"q", "scale"}, {"qs"}).Node("Mul", {"scale", "kt"}, {"kts"}, {});
      q = "qs";
      kt = "kts";
    }
    b.Node("MatMul", {q, kt}, {"scores"});
    std::string scores = "scores";
    if (!scale.empty()) b.Node(scale, {scores, "scale"}, {"scaled"}), scores = "scaled";
    if (bias) {
      b.Result("biased", type, Shape{batch, 6, 5, 7});
      b.Node("Add",
             bias_first ? std::vector<std::string>{"bias", scores}
                        : std::vector<std::string>{scores, "bias"},
             {"biased"});
      scores = "biased";
    }
    b.Node("Softmax", {scores}, {"p"}, {{"axis", axis}});
    b.Result("y", type, y ? *y : Shape{batch, 6, 5, q_size})
        .Node("MatMul", {"p", v}, {"y"})
        .Output("y");
    if (returns_probabilities) b.Output("p");
    return Lower(b.graph());
  }

  bool IsFused() const { return Ops(Lowered()).find("Softmax") == std::string::npos; }
};

float ScaleOf(const Graph& graph) {
  return FloatAttribute(graph.nodes.at(0), "scale", 0);
}

TEST(AttentionPattern, IsOneNode) {
  const Graph graph = Heads().Lowered();
  EXPECT_EQ(Ops(graph), "Attention");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "q k v bias");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "y");
  EXPECT_FLOAT_EQ(ScaleOf(graph), 0.25F);
}

TEST(AttentionPattern, TheScaleMayBeAnywhere) {
  EXPECT_FLOAT_EQ(ScaleOf(Heads{.scale = ""}.Lowered()), 1);
  EXPECT_FLOAT_EQ(ScaleOf(Heads{.scale = "Div"}.Lowered()), 4);
  EXPECT_FLOAT_EQ(ScaleOf(Heads{.scale = "", .scales_q_and_k = true}.Lowered()), 0.0625F);
}

TEST(AttentionPattern, TheBiasMayBeAbsentOrOnEitherSide) {
  const Graph without = Heads{.bias = std::nullopt}.Lowered();
  EXPECT_EQ(Names(without, without.nodes.at(0).inputs), "q k v");
  const Graph left = Heads{.bias_first = true}.Lowered();
  EXPECT_EQ(Names(left, left.nodes.at(0).inputs), "q k v bias");
  EXPECT_TRUE((Heads{.bias = Shape{7}}.IsFused()));
}

TEST(AttentionPattern, RepeatedHeadsAreReadFromTheOriginal) {
  const Graph graph = Heads{.kv_heads = 3}.Lowered();
  EXPECT_EQ(Ops(graph), "Attention");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "q k v bias");
  EXPECT_EQ(Ops(Heads{.batch = -1, .kv_heads = 3, .bias = Shape{-1, 1, 5, 7}}.Lowered()),
            "Attention");
}

TEST(AttentionPattern, WhatMayBeMoreThanARepetitionStays) {
  Heads heads{.batch = -1, .kv_heads = 3, .bias = Shape{-1, 1, 5, 7}};
  constexpr char kRepeated[] = "Unsqueeze Expand Reshape Unsqueeze Expand Reshape Attention";
  heads.expand = {2, 1, 2, 1, 1};
  EXPECT_EQ(Ops(heads.Lowered()), kRepeated) << "an unknown batch becomes two";
  heads.expand = {1, 1, 2, 1, 1};
  heads.join = {-1, 6, 7, 8};
  EXPECT_EQ(Ops(heads.Lowered()), kRepeated) << "keys may become batches";
}

TEST(AttentionPattern, HalfPrecisionIsComputedInF32) {
  const Graph graph = Heads{.type = kF16}.Lowered();
  EXPECT_EQ(Ops(graph), "Cast Cast Cast Cast Attention Cast");
  EXPECT_FLOAT_EQ(FloatAttribute(graph.nodes[4], "scale", 0), 0.25F);
}

TEST(AttentionPattern, WhatComputesSomethingElseIsLeft) {
  EXPECT_FALSE(Heads{.axis = 2}.IsFused());
  EXPECT_FALSE((Heads{.perm = {0, 1, 2, 3}}.IsFused()));
  EXPECT_FALSE(Heads{.returns_probabilities = true}.IsFused())
      << "the probabilities are needed anyway";
  EXPECT_FALSE(Heads{.q_size = -1}.IsFused());
  EXPECT_FALSE((Heads{.bias = Shape{2, 1, 5, 1}}.IsFused()));
  EXPECT_FALSE((Heads{.y = Shape{1, 2, 6, 5, 8}}.IsFused())) << "of more dimensions";
  EXPECT_FALSE((Heads{.batch = 1}.IsFused())) << "the bias makes a second batch";
}

}  // namespace
}  // namespace tandem

#include <gtest/gtest.h>

#include <random>

#include "graph/lower.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_function.h"
#include "tests/support/graph_builder.h"
#include "tests/support/openvino.h"

namespace tandem {
namespace {

constexpr DataType kF32 = DataType::kFloat32;

// Runs graphs of plain operators as OpenVINO computes them, and lowered, on the same random inputs.
class AttentionOpsTest : public ::testing::Test {
 protected:
  Tensor Random(const Shape& shape) {
    std::normal_distribution<float> normal;
    Tensor tensor = AllocateTensor(kF32, shape);
    for (uint64_t i = 0; i < ElementCount(shape); ++i) Floats(tensor)[i] = normal(random_);
    return tensor;
  }

  static std::unique_ptr<Request> Computed(const Graph& graph, const std::vector<Tensor>& inputs) {
    auto request = TheOpenVino().GetDevice("CPU")->Compile(SourceOf(graph), kExact)->NewRequest();
    for (size_t i = 0; i < inputs.size(); ++i) request->SetInput(i, inputs[i]);
    request->Run();
    return request;
  }

  static void ExpectSame(const Graph& graph, const std::string& op,
                         const std::vector<Tensor>& inputs) {
    const Graph lowered = Lower(graph);
    ASSERT_EQ(Ops(lowered), op);
    const auto plain_request = Computed(graph, inputs);
    const auto request = Computed(lowered, inputs);
    const Tensor expected = plain_request->Output(0);
    const Tensor found = request->Output(0);
    ASSERT_EQ(found.shape, expected.shape);
    for (uint64_t i = 0; i < ElementCount(found.shape); ++i) {
      ASSERT_NEAR(Floats(found)[i], Floats(expected)[i], 2e-5) << "element " << i;
    }
  }

  std::mt19937 random_;
};

// What attention_pattern.h describes, with keys and values repeated `group` times.
Graph PlainAttention(const Shape& q, const Shape& k, const std::optional<Shape>& bias) {
  const int64_t group = q[1] / k[1];
  const Shape repeated{q[0], q[1], k[2], k[3]};
  GraphBuilder b;
  b.Input("q", kF32, q).Input("k", kF32, k).Input("v", kF32, k);
  b.ConstantValues<float>("scale", kF32, {}, {0.3F});
  b.ConstantValues<int64_t>("axis", DataType::kInt64, {1}, {2});
  b.ConstantValues<int64_t>("grow", DataType::kInt64, {5}, {1, 1, group, 1, 1});
  b.ConstantValues<int64_t>("join", DataType::kInt64, {4}, {0, q[1], -1, q[3]});
  for (const std::string x : {"k", "v"}) {
    b.Result(x + "1", kF32, Shape{k[0], k[1], 1, k[2], k[3]});
    b.Result(x + "2", kF32, Shape{k[0], k[1], group, k[2], k[3]}).Result(x + "3", kF32, repeated);
    b.Node("Unsqueeze", {x, "axis"}, {x + "1"}).Node("Expand", {x + "1", "grow"}, {x + "2"});
    b.Node("Reshape", {x + "2", "join"}, {x + "3"});
  }
  b.Result("kt", kF32, Shape{q[0], q[1], k[3], k[2]})
      .Result("s", kF32, Shape{q[0], q[1], q[2], k[2]});
  b.Node("Transpose", {"k3"}, {"kt"}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  b.Node("MatMul", {"q", "kt"}, {"s"}).Node("Mul", {"s", "scale"}, {"scaled"});
  if (bias) b.Input("bias", kF32, bias).Node("Add", {"scaled", "bias"}, {"biased"});
  b.Node("Softmax", {bias ? "biased" : "scaled"}, {"p"});
  b.Result("y", kF32, q).Node("MatMul", {"p", "v3"}, {"y"}).Output("y");
  return b.graph();
}

TEST_F(AttentionOpsTest, AttentionIsThatOfThePlainOperators) {
  const Shape decode{1, 6, 1, 16};
  const Shape prefill{2, 6, 70, 16};
  for (const Shape& q : {decode, prefill}) {
    for (int64_t kv_heads : {6, 2, 1}) {
      const Shape k{q[0], kv_heads, 90, 16};
      const std::vector<Tensor> inputs{Random(q), Random(k), Random(k)};
      ExpectSame(PlainAttention(q, k, std::nullopt), "Attention", inputs);
      for (const Shape& bias :
           {Shape{q[0], 1, q[2], 90}, Shape{6, 1, 90}, Shape{1, 6, q[2], 90}, Shape{90}}) {
        ExpectSame(PlainAttention(q, k, bias), "Attention",
                   {inputs[0], inputs[1], inputs[2], Random(bias)});
      }
    }
  }
}

TEST_F(AttentionOpsTest, SizesAreKnownWhenItRuns) {
  const Graph graph = PlainAttention({-1, 4, -1, 8}, {-1, 2, -1, 8}, Shape{-1, 1, -1, -1});
  for (int64_t keys : {1, 33}) {
    ExpectSame(graph, "Attention",
               {Random({2, 4, 5, 8}), Random({2, 2, keys, 8}), Random({2, 2, keys, 8}),
                Random({2, 1, 5, keys})});
    const auto nothing = Computed(Lower(graph), {Random({2, 4, 0, 8}), Random({2, 2, keys, 8}),
                                                 Random({2, 2, keys, 8}), Random({2, 1, 1, keys})});
    EXPECT_EQ(nothing->Output(0).shape, (Shape{2, 4, 0, 8}));
  }
  const auto zeros = Computed(Lower(graph), {Random({1, 4, 1, 8}), Random({1, 2, 0, 8}),
                                             Random({1, 2, 0, 8}), Random({1, 1, 1, 0})});
  EXPECT_EQ(Floats(zeros->Output(0))[31], 0) << "a sum of nothing";
}

TEST_F(AttentionOpsTest, SizesThatDoNotFitAreErrors) {
  const Graph graph = Lower(PlainAttention({-1, 4, -1, 8}, {-1, 2, -1, 8}, Shape{-1, 1, -1, -1}));
  EXPECT_TANDEM_ERROR(Computed(graph, {Random({2, 4, 5, 8}), Random({2, 2, 9, 8}),
                                       Random({2, 2, 8, 8}), Random({2, 1, 5, 9})}),
                      ErrorCode::kInvalidArgument, "v [2,2,8,8]");
  EXPECT_TANDEM_ERROR(Computed(graph, {Random({2, 4, 5, 8}), Random({2, 2, 9, 8}),
                                       Random({2, 2, 9, 8}), Random({2, 1, 5, 8})}),
                      ErrorCode::kInvalidArgument, "found [2,1,5,8]", "[2,4,5,9]");
}

Graph PlainRotaryEmbedding(const Shape& x, const Shape& angles) {
  Shape half = x;
  half.back() /= 2;
  GraphBuilder b;
  b.Input("x", kF32, x).Input("cos", kF32, angles).Input("sin", kF32, angles);
  for (const std::string part : {"first", "second", "minus"}) b.Result(part, kF32, half);
  b.Result("turned", kF32, x);
  b.Node("Split", {"x"}, {"first", "second"}, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}});
  b.Node("Neg", {"second"}, {"minus"});
  b.Node("Concat", {"minus", "first"}, {"turned"}, {{"axis", int64_t{-1}}});
  b.Node("Mul", {"x", "cos"}, {"a"}).Node("Mul", {"turned", "sin"}, {"b"});
  b.Node("Add", {"a", "b"}, {"y"}).Output("y");
  return b.graph();
}

TEST_F(AttentionOpsTest, RotaryEmbeddingIsThatOfThePlainOperators) {
  const Shape x{2, 3, 130, 64};
  for (const Shape& angles :
       {Shape{2, 1, 130, 64}, Shape{1, 3, 1, 64}, Shape{130, 64}, Shape{64}}) {
    ExpectSame(PlainRotaryEmbedding(x, angles), "RotaryEmbedding",
               {Random(x), Random(angles), Random(angles)});
  }
  const Graph dynamic = PlainRotaryEmbedding({-1, 3, -1, 8}, {-1, 1, -1, 8});
  ExpectSame(dynamic, "RotaryEmbedding",
             {Random({2, 3, 5, 8}), Random({1, 1, 5, 8}), Random({2, 1, 1, 8})});
  EXPECT_TANDEM_ERROR(
      Computed(Lower(dynamic), {Random({2, 3, 5, 8}), Random({3, 1, 5, 8}), Random({2, 1, 5, 8})}),
      ErrorCode::kInvalidArgument, "found [3,1,5,8]", "[2,3,5,8]");
}

}  // namespace
}  // namespace tandem

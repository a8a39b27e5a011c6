#include "graph/kv_caches.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/lower.h"
#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr DataType kI64 = DataType::kInt64;

// Attention of 6 heads of 8 over 3 of keys and values, from projections q [2, s, 48], k and v
// [2, s, 24], with a rotary embedding, behind a past [2, 3, p, 8], as exporters write it.
class Layer {
 public:
  bool has_past = true;
  bool returns_present = true;
  bool rotates = true;
  std::string reads;       // one more reader of this value
  std::string past_maker;  // the past is made by this operator

  // Adds a layer; its values have the suffix.
  void AddTo(GraphBuilder& b, const std::string& suffix = "") const {
    const auto n = [&](const std::string& name) { return name + suffix; };
    b.Input(n("q"), kF32, Shape{2, -1, 48}).Input(n("k"), kF32, Shape{2, -1, 24});
    b.Input(n("v"), kF32, Shape{2, -1, 24});
    if (suffix.empty() || suffix == "0") {
      b.Input("cos", kF32, Shape{2, 1, -1, 8}).Input("sin", kF32, Shape{2, 1, -1, 8});
      b.ConstantValues<float>("scale", kF32, {}, {0.5F});
      b.ConstantValues<int64_t>("join", kI64, {3}, {0, 0, 48});
      b.ConstantValues<int64_t>("two", kI64, {1}, {2});
      b.ConstantValues<int64_t>("grow", kI64, {5}, {1, 1, 2, 1, 1});
      b.ConstantValues<int64_t>("all", kI64, {4}, {0, 6, -1, 8});
      b.ConstantValues<int64_t>("six", kI64, {4}, {0, 0, 6, 8});
      b.ConstantValues<int64_t>("three", kI64, {4}, {0, 0, 3, 8});
    }
    Split(b, n("q"), 6);
    for (const char* x : {"k", "v"}) Split(b, n(x), 3);
    std::string q = n("q") + "_heads";
    std::string k = n("k") + "_heads";
    std::string v = n("v") + "_heads";
    if (rotates) Rotate(b, q, 6), Rotate(b, k, 3), q += "_rotated", k += "_rotated";
    if (has_past) {
      for (auto [x, kind] : {std::pair{&k, "key"}, std::pair{&v, "value"}}) {
        const std::string past = n(std::string("past_") + kind);
        const std::string present = n(std::string("present_") + kind);
        b.Input(past, kF32, Shape{2, 3, -1, 8}).Result(present, kF32, Shape{2, 3, -1, 8});
        std::string from = past;
        if (!past_maker.empty()) b.Node(past_maker, {past}, {past + "_made"}), from += "_made";
        b.Node("Concat", {from, *x}, {present}, {{"axis", int64_t{2}}});
        *x = present;
      }
    }
    if (returns_present) b.Output(k).Output(v);
    for (std::string* x : {&k, &v}) {
      b.Result(*x + "5", kF32, Shape{2, 3, 1, -1, 8})
          .Result(*x + "5r", kF32, Shape{2, 3, 2, -1, 8});
      b.Result(*x + "6", kF32, Shape{2, 6, -1, 8});
      b.Node("Unsqueeze", {*x, "two"}, {*x + "5"}).Node("Expand", {*x + "5", "grow"}, {*x + "5r"});
      b.Node("Reshape", {*x + "5r", "all"}, {*x + "6"});
      *x += '6';
    }
    b.Result(n("kt"), kF32, Shape{2, 6, 8, -1}).Result(n("s"), kF32, Shape{2, 6, -1, -1});
    b.Node("Transpose", {k}, {n("kt")}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
    b.Node("MatMul", {q, n("kt")}, {n("s")}).Node("Mul", {n("s"), "scale"}, {n("scaled")});
    b.Node("Softmax", {n("scaled")}, {n("p")}, {{"axis", int64_t{-1}}});
    b.Result(n("o"), kF32, Shape{2, 6, -1, 8}).Result(n("ot"), kF32, Shape{2, -1, 6, 8});
    b.Result(n("y"), kF32, Shape{2, -1, 48});
    b.Node("MatMul", {n("p"), v}, {n("o")});
    b.Node("Transpose", {n("o")}, {n("ot")}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    b.Node("Reshape", {n("ot"), "join"}, {n("y")}).Output(n("y"));
    if (!reads.empty()) b.Node("Relu", {n(reads)}, {n("read")}).Output(n("read"));
  }

  Graph Lowered() const {
    GraphBuilder b;
    AddTo(b);
    return Lower(b.graph());
  }

 private:
  static void Split(GraphBuilder& b, const std::string& x, int64_t heads) {
    b.Result(x + "_split", kF32, Shape{2, -1, heads, 8});
    b.Result(x + "_heads", kF32, Shape{2, heads, -1, 8});
    b.Node("Reshape", {x, heads == 6 ? "six" : "three"}, {x + "_split"});
    b.Node("Transpose", {x + "_split"}, {x + "_heads"},
           {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  }

  static void Rotate(GraphBuilder& b, const std::string& x, int64_t heads) {
    const Shape half{2, heads, -1, 4};
    b.Result(x + "1", kF32, half).Result(x + "2", kF32, half).Result(x + "-2", kF32, half);
    b.Result(x + "_turned", kF32, Shape{2, heads, -1, 8});
    b.Node("Split", {x}, {x + "1", x + "2"}, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}});
    b.Node("Neg", {x + "2"}, {x + "-2"});
    b.Node("Concat", {x + "-2", x + "1"}, {x + "_turned"}, {{"axis", int64_t{-1}}});
    b.Node("Mul", {x, "cos"}, {x + "_a"}).Node("Mul", {x + "_turned", "sin"}, {x + "_b"});
    b.Node("Add", {x + "_a", x + "_b"}, {x + "_rotated"});
  }
};

std::string Inputs(const Graph& graph, const Node& node) {
  return Names(graph, node.inputs);
}

TEST(AttentionSurroundings, AreTakenIn) {
  const Graph graph = Layer().Lowered();
  ASSERT_EQ(Ops(graph), "Attention");
  const Node& node = graph.nodes[0];
  EXPECT_EQ(Inputs(graph, node), "q k v - cos sin - - past_key past_value");
  EXPECT_EQ(Names(graph, node.outputs), "y present_key present_value");
  EXPECT_EQ(IntAttribute(node, "heads", 0), 6);
  EXPECT_EQ(IntAttribute(node, "kv_heads", 0), 3);
  EXPECT_EQ(IntAttribute(node, "merges_heads", 0), 1);
  EXPECT_FLOAT_EQ(FloatAttribute(node, "scale", 0), 0.5F);
}

TEST(AttentionSurroundings, WithoutARotation) {
  Layer layer;
  layer.rotates = false;
  const Graph graph = layer.Lowered();
  ASSERT_EQ(Ops(graph), "Attention");
  EXPECT_EQ(Inputs(graph, graph.nodes[0]), "q k v - - - - - past_key past_value");
}

TEST(AttentionSurroundings, NewCachesHaveNoPast) {
  Layer layer;
  layer.has_past = false;
  const Graph graph = layer.Lowered();
  ASSERT_EQ(Ops(graph), "Attention");
  EXPECT_EQ(Inputs(graph, graph.nodes[0]), "q k v - cos sin");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "y k_heads_rotated v_heads");
}

TEST(AttentionSurroundings, WithoutCaches) {
  Layer layer;
  layer.has_past = layer.returns_present = false;
  const Graph graph = layer.Lowered();
  ASSERT_EQ(Ops(graph), "Attention");
  EXPECT_EQ(Inputs(graph, graph.nodes[0]), "q k v - cos sin");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "y");
}

TEST(AttentionSurroundings, APresentThatOthersReadIsNotTakenIn) {
  for (const char* present : {"present_key", "present_value"}) {
    Layer layer;
    layer.reads = present;
    const Graph graph = layer.Lowered();
    for (const Node& node : graph.nodes) {
      if (node.op_type != "Attention") continue;
      EXPECT_EQ(node.outputs.size(), 1u) << present;
    }
    EXPECT_NE(Ops(graph).find("Concat"), std::string::npos) << present;
  }
}

TEST(AttentionSurroundings, APastThatIsMadeIsNotTakenIn) {
  Layer layer;
  layer.past_maker = "Relu";
  const std::string ops = Ops(layer.Lowered());
  EXPECT_NE(ops.find("Relu"), std::string::npos) << ops;
  EXPECT_NE(ops.find("Concat"), std::string::npos) << "BindCaches would not find the past: " << ops;
}

std::string CacheNames(const Graph& graph, const FunctionCall& call) {
  std::string names;
  for (const auto& cache : call.caches) {
    names += (names.empty() ? "" : ", ") + Names(graph, {cache.past, cache.present});
  }
  return names;
}

std::vector<int64_t> Ports(const Node& node) {
  return IntsAttribute(node, "inputs");
}

TEST(BindCaches, TheyAreNeitherInputsNorOutputs) {
  const Graph graph = Layer().Lowered();
  const CallGraph calls = WholeGraph(graph);
  const Graph& function = calls.functions.at(0);
  EXPECT_EQ(Names(function, function.inputs), "q k v cos sin");
  EXPECT_EQ(Names(function, function.outputs), "y");
  EXPECT_EQ(function.caches, 2u);
  const FunctionCall& call = calls.calls.at(0);
  EXPECT_EQ(Names(graph, call.inputs), "q k v cos sin");
  EXPECT_EQ(Names(graph, call.outputs), "y");
  EXPECT_EQ(CacheNames(graph, call), "past_key present_key, past_value present_value");
  const Node& node = function.nodes.at(0);
  EXPECT_EQ(Names(function, node.inputs), "q k v cos sin");
  EXPECT_EQ(Ports(node), (std::vector<int64_t>{0, 1, 2, 4, 5, 8})) << "the addresses are last";
  EXPECT_EQ(IntAttribute(node, "cache", -1), 0);
}

TEST(BindCaches, APastThatOthersReadStaysAnInput) {
  Layer layer;
  layer.reads = "past_key";
  const Graph graph = layer.Lowered();
  const CallGraph calls = WholeGraph(graph);
  const Graph& function = calls.functions.at(0);
  EXPECT_NE(Names(function, function.inputs).find("past_key"), std::string::npos);
  EXPECT_EQ(Names(function, function.inputs).find("past_value"), std::string::npos);
  EXPECT_EQ(Names(graph, calls.calls[0].inputs), Names(function, function.inputs));
  EXPECT_EQ(CacheNames(graph, calls.calls[0]), "past_key present_key, past_value present_value");
}

TEST(BindCaches, WithoutCachesNothingIsBound) {
  Layer layer;
  layer.has_past = layer.returns_present = false;
  const CallGraph calls = WholeGraph(layer.Lowered());
  EXPECT_EQ(calls.functions.at(0).caches, 0u);
  EXPECT_TRUE(calls.calls.at(0).caches.empty());
  const Node& node = calls.functions[0].nodes.at(0);
  EXPECT_EQ(Ports(node), (std::vector<int64_t>{0, 1, 2, 4, 5}));
  EXPECT_EQ(IntAttribute(node, "cache", -1), -1);
}

TEST(BindCaches, EachCallHasItsOwn) {
  GraphBuilder b;
  for (const char* layer : {"0", "1", "2"}) Layer().AddTo(b, layer);
  const Graph graph = Lower(b.graph());
  const CallGraph calls = FoldRepeats(graph, {.min_repeats = 2, .min_nodes = 1});
  size_t folded = 0;
  for (const FunctionCall& call : calls.calls) {
    if (call.caches.empty()) continue;
    ++folded;
    const std::string i{graph[call.inputs.at(0)].name.back()};
    EXPECT_EQ(CacheNames(graph, call),
              Concat("past_key", i, " present_key", i, ", past_value", i, " present_value", i));
    const Graph& function = calls.functions[call.function];
    EXPECT_EQ(call.inputs.size(), function.inputs.size());
    EXPECT_EQ(call.outputs.size(), function.outputs.size());
  }
  EXPECT_EQ(folded, 3u);
  EXPECT_EQ(calls.functions.size(), 1u);
}

// com.microsoft GroupQueryAttention with all that Tandem takes.
struct Grouped {
  std::vector<Attribute> attributes;
  std::vector<std::string> more_inputs;  // behind the angles
  bool is_packed = false;
  bool has_past = true;
  bool returns_present = true;
  bool has_last = true;
  bool reads_present = false;
  bool makes_past = false;
  bool rotates = true;
  int64_t kv_width = 24;
  std::string lacks;  // an output

  Graph Lowered() const {
    GraphBuilder b;
    b.Input("q", kF32, Shape{2, 5, is_packed ? 96 : 48});
    b.Input("k", kF32, Shape{2, 5, kv_width}).Input("v", kF32, Shape{2, 5, kv_width});
    const Shape rows{2, 3, -1, 8};
    b.Input("past_key", kF32, rows).Input("past_value", kF32, rows);
    b.Input("last", DataType::kInt32, Shape{2}).Input("total", DataType::kInt32, Shape{1});
    b.Input("cos", kF32, Shape{64, 4}).Input("sin", kF32, Shape{64, 4});
    b.Input("positions", kI64, Shape{2, 5}).Input("bias", kF32, Shape{2, 1, 5, -1});
    b.Input("sink", kF32, Shape{6});
    b.Result("y", kF32, Shape{2, 5, 48});
    b.Result("present_key", kF32, rows).Result("present_value", kF32, rows);
    std::string past = "past_key";
    if (makes_past) b.Node("Relu", {"past_key"}, {"made"}), past = "made";
    std::vector<std::string> inputs{"q", "k", "v", past, "past_value", "last", "total"};
    if (is_packed) inputs[1] = inputs[2] = "";
    if (!has_past) inputs[3] = inputs[4] = "";
    if (!has_last) inputs[5] = "";
    if (rotates) inputs.insert(inputs.end(), {"cos", "sin"});
    inputs.insert(inputs.end(), more_inputs.begin(), more_inputs.end());
    std::vector<Attribute> all{{"num_heads", int64_t{6}}, {"kv_num_heads", int64_t{3}}};
    if (rotates) all.push_back({"do_rotary", int64_t{1}});
    all.insert(all.end(), attributes.begin(), attributes.end());
    b.Node("GroupQueryAttention", inputs, {"y", "present_key", "present_value"}, all,
           "com.microsoft");
    b.Output("y");
    if (returns_present) b.Output("present_key").Output("present_value");
    if (reads_present) b.Node("Relu", {"present_key"}, {"r"}).Output("r");
    if (lacks == "presents") b.graph().nodes.back().outputs.resize(1);
    return Lower(b.graph());
  }

  bool IsTaken() const { return Ops(Lowered()) == "Attention"; }
};

TEST(GroupQueryAttentionPattern, IsOneNode) {
  const Graph graph = Grouped{.attributes = {{"rotary_interleaved", int64_t{1}}}}.Lowered();
  ASSERT_EQ(Ops(graph), "Attention");
  const Node& node = graph.nodes[0];
  EXPECT_EQ(Inputs(graph, node), "q k v - cos sin last total past_key past_value");
  EXPECT_EQ(Names(graph, node.outputs), "y present_key present_value");
  EXPECT_FLOAT_EQ(FloatAttribute(node, "scale", 0), 1 / std::sqrt(8.0F));
  EXPECT_EQ(IntAttribute(node, "heads", 0), 6);
  EXPECT_EQ(IntAttribute(node, "kv_heads", 0), 3);
  EXPECT_EQ(IntAttribute(node, "is_interleaved", 0), 1);
}

TEST(GroupQueryAttentionPattern, MayLeaveThingsOut) {
  const Graph packed = Grouped{.is_packed = true, .has_past = false, .rotates = false}.Lowered();
  ASSERT_EQ(Ops(packed), "Attention");
  EXPECT_EQ(Inputs(packed, packed.nodes[0]), "q - - - - - last total");
  EXPECT_TRUE((Grouped{.attributes = {{"scale", 0.5F}}}.IsTaken()));
  EXPECT_TRUE((Grouped{.attributes = {{"local_window_size", int64_t{-1}}}}.IsTaken()));
  EXPECT_TRUE((Grouped{.more_inputs = {"", ""}}.IsTaken()));
}

TEST(GroupQueryAttentionPattern, WhatTandemDoesNotComputeIsLeft) {
  EXPECT_FALSE((Grouped{.attributes = {{"softcap", 20.0F}}}.IsTaken()));
  EXPECT_FALSE((Grouped{.attributes = {{"local_window_size", int64_t{4}}}}.IsTaken()));
  EXPECT_FALSE((Grouped{.attributes = {{"smooth_softmax", int64_t{1}}}}.IsTaken()));
  EXPECT_FALSE((Grouped{.attributes = {{"kv_cache_bit_width", int64_t{8}}}}.IsTaken()));
  EXPECT_FALSE((Grouped{.more_inputs = {"positions"}}.IsTaken()));
  EXPECT_FALSE((Grouped{.more_inputs = {"", "bias"}}.IsTaken()));
  EXPECT_FALSE((Grouped{.more_inputs = {"", "", "sink"}}.IsTaken()));
  EXPECT_FALSE((Grouped{.has_last = false}.IsTaken()));
  EXPECT_FALSE((Grouped{.kv_width = 48}.IsTaken()));
  EXPECT_FALSE((Grouped{.returns_present = false, .lacks = "presents"}.IsTaken()));
}

TEST(GroupQueryAttentionPattern, CachesAreTheCallersOnly) {
  EXPECT_EQ((Ops(Grouped{.reads_present = true}.Lowered())), "GroupQueryAttention Relu");
  EXPECT_EQ((Ops(Grouped{.makes_past = true}.Lowered())), "Relu GroupQueryAttention");
}

TEST(GroupQueryAttentionPattern, APresentThatNobodyReadsIsNotKept) {
  const Graph graph = Grouped{.returns_present = false}.Lowered();
  ASSERT_EQ(Ops(graph), "Attention");
  const CallGraph calls = WholeGraph(graph);
  EXPECT_EQ(CacheNames(graph, calls.calls.at(0)), "past_key -, past_value -");
  EXPECT_EQ(Ports(calls.functions[0].nodes.at(0)), (std::vector<int64_t>{0, 1, 2, 4, 5, 6, 7, 8}));
  EXPECT_EQ(Names(calls.functions[0], calls.functions[0].inputs), "q k v cos sin last total");
}

}  // namespace
}  // namespace tandem

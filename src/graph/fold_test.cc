#include "graph/fold.h"

#include <gtest/gtest.h>

#include "graph/lower.h"
#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

constexpr DataType kF32 = DataType::kFloat32;

// A small transformer-like model: a prologue that all layers read, `layers` blocks with weights, a
// cache and a residual stream, and an epilogue.
class Layers {
 public:
  explicit Layers(int layers, int odd_layer = -1) {
    b_.Input("x0", kF32, shape_).Input("mask", kF32, shape_).Node("Tanh", {"mask"}, {"bias"});
    for (int i = 0; i < layers; ++i) {
      const auto name = [i](const std::string& base) { return base + std::to_string(i); };
      const std::string x = name("x");
      const std::string next = "x" + std::to_string(i + 1);
      b_.Input(name("past"), kF32, shape_);
      b_.Constant(name("gain"), kF32, {32}, i);
      b_.Constant(name("w"), kF32, {32, 32}, i).Constant(name("v"), kF32, {32, 32}, i + 100);
      b_.Node("Mul", {x, name("gain")}, {name("normed")});
      b_.Node("MatMul", {name("normed"), name("w")}, {name("key")});
      b_.Node("Add", {name("key"), name("past")}, {name("present")});
      b_.Node("Add", {name("present"), "bias"}, {name("scores")});
      b_.Node(i == odd_layer ? "Sigmoid" : "Relu", {name("scores")}, {name("act")});
      b_.Node("MatMul", {name("act"), name("v")}, {name("out")});
      b_.Node("Add", {x, name("out")}, {next});
      b_.Output(name("present"));
    }
    b_.Node("Exp", {"x" + std::to_string(layers)}, {"logits"}).Output("logits");
  }

  Graph Lowered() { return Lower(b_.graph()); }

 private:
  const Shape shape_{4, 32};
  GraphBuilder b_;
};

constexpr FoldLimits kSmall{.min_repeats = 2, .min_nodes = 3};

TEST(Fold, LayersBecomeOneFunctionCalledOnceForEach) {
  const Graph graph = Layers(5).Lowered();
  const CallGraph folded = FoldRepeats(graph, kSmall);
  ASSERT_EQ(folded.functions.size(), 3u);
  ASSERT_EQ(folded.calls.size(), 7u);
  EXPECT_EQ(Ops(folded.functions[0]), "Tanh");
  EXPECT_EQ(Ops(folded.functions[1]), "Mul SharedMatMul Add Relu SharedMatMul");
  EXPECT_EQ(Ops(folded.functions[2]), "Exp");
  for (size_t call = 1; call <= 5; ++call) EXPECT_EQ(folded.calls[call].function, 1u);
}

TEST(Fold, EachCallHasItsOwnWeightsAndValues) {
  const Graph graph = Layers(4).Lowered();
  const CallGraph folded = FoldRepeats(graph, kSmall);
  const Graph& body = folded.functions[1];
  for (int layer = 0; layer < 4; ++layer) {
    const FunctionCall& call = folded.calls[static_cast<size_t>(layer) + 1];
    const std::string i = std::to_string(layer);
    ASSERT_EQ(call.matrices.size(), 2u);
    EXPECT_EQ(call.matrices[0].codes->name, "w" + i);
    EXPECT_EQ(call.matrices[1].codes->name, "v" + i);
    ASSERT_EQ(call.inputs.size(), body.inputs.size());
    for (size_t slot = 0; slot < body.inputs.size(); ++slot) {
      const std::string in_body = body[body.inputs[slot]].name;
      const std::string in_call = graph[call.inputs[slot]].name;
      if (in_body == "bias") {
        EXPECT_EQ(in_call, "bias") << "what all layers share";
      } else {
        EXPECT_EQ(in_call, in_body.substr(0, in_body.size() - 1) + i);
      }
    }
  }
}

TEST(Fold, OneValueCrossesFromLayerToLayer) {
  const Graph graph = Layers(6).Lowered();
  const CallGraph folded = FoldRepeats(graph, kSmall);
  const Graph& body = folded.functions[1];
  EXPECT_EQ(body.outputs.size(), 2u)
      << "the cache and the residual stream: " << Names(body, body.outputs);
}

TEST(Fold, CallsMakeWhatTheGraphReturns) {
  const Graph graph = Layers(3).Lowered();
  const CallGraph folded = FoldRepeats(graph, kSmall);
  std::vector<std::string> made;
  for (const FunctionCall& call : folded.calls) {
    for (ValueId value : call.outputs) {
      if (value != kNoValue) made.push_back(graph[value].name);
    }
  }
  for (ValueId value : graph.outputs) {
    EXPECT_EQ(std::count(made.begin(), made.end(), graph[value].name), 1) << graph[value].name;
  }
}

TEST(Fold, ALayerOfAnotherKindIsNotPartOfIt) {
  const Graph graph = Layers(9, /*odd_layer=*/8).Lowered();
  const CallGraph folded = FoldRepeats(graph, kSmall);
  EXPECT_EQ(folded.calls.size(), 2u + 8u);
}

TEST(Fold, AnInterruptedRunFoldsItsLongerPart) {
  // Layers 0 and 1, another, then 3 to 7: the first two stay in the prologue.
  const Graph graph = Layers(8, /*odd_layer=*/2).Lowered();
  const CallGraph folded = FoldRepeats(graph, kSmall);
  EXPECT_EQ(folded.calls.size(), 2u + 5u);
}

TEST(Fold, LimitsDecideWhatIsWorthIt) {
  const Graph graph = Layers(3).Lowered();
  EXPECT_EQ(FoldRepeats(graph, {.min_repeats = 4, .min_nodes = 3}).functions.size(), 1u);
  EXPECT_EQ(FoldRepeats(graph, {.min_repeats = 2, .min_nodes = 8}).functions.size(), 1u);
  EXPECT_EQ(FoldRepeats(graph, {.min_repeats = 2, .min_nodes = 3, .max_argument_bytes = 16})
                .functions.size(),
            1u);
}

TEST(Fold, NothingToFoldIsOneFunction) {
  GraphBuilder b;
  b.Input("a").Node("Relu", {"a"}, {"b"}).Node("Tanh", {"b"}, {"c"}).Output("c").Output("b");
  const CallGraph whole = FoldRepeats(b.graph(), kSmall);
  ASSERT_EQ(whole.calls.size(), 1u);
  EXPECT_EQ(Names(b.graph(), whole.calls[0].inputs), "a");
  EXPECT_EQ(Names(b.graph(), whole.calls[0].outputs), "b c");
}

TEST(Fold, ConstantsThatAreNoFloatsMustBeEqual) {
  GraphBuilder b;
  b.Input("x0");
  for (int i = 0; i < 4; ++i) {
    const auto name = [i](const std::string& base) { return base + std::to_string(i); };
    b.ConstantValues<int64_t>(name("shape"), DataType::kInt64, {2}, {2, i == 2 ? -1 : 4});
    b.Node("Relu", {name("x")}, {name("r")}).Node("Tanh", {name("r")}, {name("t")});
    b.Node("Reshape", {name("t"), name("shape")}, {"x" + std::to_string(i + 1)});
  }
  b.Output("x4");
  const CallGraph folded = FoldRepeats(b.graph(), {.min_repeats = 2, .min_nodes = 3});
  size_t repeats = 0;
  for (const FunctionCall& call : folded.calls) {
    if (folded.functions[call.function].nodes.size() == 3) ++repeats;
  }
  EXPECT_EQ(repeats, 2u) << "layers 0 and 1";
}

}  // namespace
}  // namespace tandem

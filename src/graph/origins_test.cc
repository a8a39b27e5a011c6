#include "graph/origins.h"

#include <gtest/gtest.h>

#include "graph/fold.h"
#include "graph/lower.h"
#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

constexpr DataType kF32 = DataType::kFloat32;

// By node of the lowered graph.
std::vector<std::string> OriginOps(const Graph& graph, const Graph& lowered) {
  std::vector<std::string> ops;
  for (const std::vector<NodeId>& origins : Origins(graph, lowered)) {
    std::string& text = ops.emplace_back();
    for (NodeId id : origins) text += (text.empty() ? "" : " ") + graph.nodes[id].op_type;
  }
  return ops;
}

TEST(Origins, WhatIsFusedIsListedAndWhatStaysIsItself) {
  GraphBuilder b;
  b.Input("x", kF32, Shape{4, 64}).Constant("w", kF32, {64, 96}).Input("r", kF32, Shape{4, 96});
  b.Result("product", kF32, Shape{4, 96});
  b.Node("MatMul", {"x", "w"}, {"product"}).Node("Add", {"product", "r"}, {"sum"});
  b.Node("Relu", {"sum"}, {"y"}).Output("y");
  const Graph lowered = Lower(b.graph());
  ASSERT_EQ(Ops(lowered), "SharedMatMul Relu");
  EXPECT_EQ(OriginOps(b.graph(), lowered), (std::vector<std::string>{"MatMul Add", "Relu"}));
}

TEST(Origins, TheGraphItselfIsItsOwnOrigin) {
  GraphBuilder b;
  b.Input("x", kF32, Shape{4}).Node("Relu", {"x"}, {"r"}).Node("Neg", {"r"}, {"y"}).Output("y");
  EXPECT_EQ(Origins(b.graph(), b.graph()), (std::vector<std::vector<NodeId>>{{0}, {1}}));
}

TEST(Origins, AProductThatIsCastIsStillTheModels) {
  constexpr DataType kF16 = DataType::kFloat16;
  GraphBuilder b;
  b.Input("x", kF16, Shape{4, 64}).Constant("w", kF16, {64, 96});
  b.Result("y", kF16, Shape{4, 96}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  const Graph lowered = Lower(b.graph());
  ASSERT_EQ(Ops(lowered), "Cast SharedMatMul Cast");
  EXPECT_EQ(OriginOps(b.graph(), lowered), (std::vector<std::string>{"", "MatMul", ""}));
}

TEST(Origins, CallsOfAFunctionKnowTheirNodes) {
  GraphBuilder b;
  b.Input("x0", kF32, Shape{8});
  for (int i = 0; i < 4; ++i) {
    const std::string from = "x" + std::to_string(i);
    const std::string to = "x" + std::to_string(i + 1);
    b.Node("Relu", {from}, {"r" + std::to_string(i)}).Node("Neg", {"r" + std::to_string(i)}, {to});
  }
  b.Output("x4");
  FoldLimits limits;
  limits.min_repeats = 2;
  limits.min_nodes = 2;
  const CallGraph folded = FoldRepeats(b.graph(), limits);
  ASSERT_EQ(folded.functions.size(), 1u);
  ASSERT_EQ(folded.calls.size(), 4u);
  EXPECT_EQ(folded.calls[0].nodes, (std::vector<NodeId>{0, 1}));
  EXPECT_EQ(folded.calls[3].nodes, (std::vector<NodeId>{6, 7}));
}

TEST(Origins, ANodeWithoutANameHasThatOfItsOutput) {
  GraphBuilder b;
  b.Input("x", kF32, Shape{4}).Node("Relu", {"x"}, {"y"}).Output("y");
  Graph graph = b.graph();
  graph.nodes[0].name = "relu";
  EXPECT_EQ(NameInTopology(graph, graph.nodes[0]), "relu");
  graph.nodes[0].name.clear();
  EXPECT_EQ(NameInTopology(graph, graph.nodes[0]), "y");
}

}  // namespace
}  // namespace tandem

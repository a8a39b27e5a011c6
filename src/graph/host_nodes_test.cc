#include "graph/host_nodes.h"

#include <gtest/gtest.h>

#include "graph/fold.h"
#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

constexpr DataType kI64 = DataType::kInt64;

std::string OnHost(const Graph& graph) {
  const GraphIndex index(graph);
  const HostNodes host(graph, index, WideIntegers(graph, index));
  std::vector<std::string> ops;
  for (NodeId id : host.List()) ops.push_back(graph.nodes[id].op_type);
  return Join(ops, " ");
}

// Positions that a model casts to f32 and computes with.
GraphBuilder& Positions(GraphBuilder& b) {
  b.Input("positions", kI64).ConstantValues<int64_t>("one", kI64, {1}, {1});
  b.Result("real", DataType::kFloat32);
  b.Node("Add", {"positions", "one"}, {"next"}).Node("Cast", {"next"}, {"real"});
  b.Node("Cos", {"real"}, {"cos"}).Output("cos");
  return b;
}

TEST(HostNodes, IntegersThatLeadUpToAModelAreTheHosts) {
  GraphBuilder b;
  EXPECT_EQ(OnHost(Positions(b).graph()), "Add Cast");
}

TEST(HostNodes, IntegersThatAreTheResultAreLeftToOthers) {
  GraphBuilder b;
  b.Input("x", kI64).Node("Add", {"x", "x"}, {"y"}).Output("y");
  EXPECT_EQ(OnHost(b.graph()), "");
}

TEST(HostNodes, WhatDependsOnAnotherNodeIsNotTheHosts) {
  GraphBuilder b;
  b.Input("x").Result("i", kI64).Result("f", DataType::kFloat32);
  b.Node("TopK", {"x"}, {"i"}).Node("Add", {"i", "i"}, {"j"}).Node("Cast", {"j"}, {"f"});
  b.Node("Cos", {"f"}, {"y"}).Output("y");
  EXPECT_EQ(OnHost(b.graph()), "");
}

TEST(HostNodes, SafeNodesComeAlongWhenUnsafeOnesReadThem) {
  GraphBuilder b;
  b.Input("length", DataType::kInt32).ConstantValues<int64_t>("one", kI64, {1}, {1});
  b.Result("wide", kI64).Result("less", DataType::kBool).Result("y", DataType::kFloat32);
  b.Node("Cast", {"length"}, {"wide"}).Node("Sub", {"wide", "one"}, {"last"});
  b.Node("Less", {"last", "one"}, {"less"}).Node("Where", {"less", "less", "less"}, {"y"});
  b.Output("y");
  EXPECT_EQ(OnHost(b.graph()), "Cast Sub Less");
}

TEST(HostNodes, AreTheFirstFunctionOfAGraph) {
  GraphBuilder b;
  const CallGraph calls = WholeGraph(Positions(b).graph());
  ASSERT_EQ(calls.functions.size(), 2u);
  EXPECT_TRUE(calls.first_is_on_host);
  EXPECT_EQ(Ops(calls.functions[0]), "Add Cast");
  EXPECT_EQ(Ops(calls.functions[1]), "Cos");
  EXPECT_EQ(Names(b.graph(), calls.calls[1].inputs), "real");
}

}  // namespace
}  // namespace tandem

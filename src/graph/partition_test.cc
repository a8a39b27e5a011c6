#include "graph/partition.h"

#include <gtest/gtest.h>

#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

using Partitions = std::vector<std::vector<NodeId>>;

Partitions Partition(const Graph& graph, const std::vector<bool>& supported) {
  return PartitionNodes(graph, GraphIndex(graph), supported);
}

TEST(Partition, AllSupportedNodesAreOnePartition) {
  GraphBuilder b;
  b.Input("a").Node("A", {"a"}, {"b"}).Node("B", {"b"}, {"c"}).Node("C", {"a"}, {"d"});
  EXPECT_EQ(Partition(b.graph(), {true, true, true}), (Partitions{{0, 1, 2}}));
  EXPECT_EQ(Partition(b.graph(), {false, false, false}), Partitions{});
}

TEST(Partition, AnUnsupportedNodeCutsAChain) {
  GraphBuilder b;
  b.Input("a").Node("A", {"a"}, {"b"}).Node("B", {"b"}, {"c"}).Node("C", {"c"}, {"d"});
  EXPECT_EQ(Partition(b.graph(), {true, false, true}), (Partitions{{0}, {2}}));
}

TEST(Partition, WhatComesFirstUnsupportedCutsNothing) {
  GraphBuilder b;
  b.Input("a").Node("U", {"a"}, {"u"}).Node("A", {"a"}, {"b"}).Node("B", {"b", "u"}, {"c"});
  EXPECT_EQ(Partition(b.graph(), {false, true, true}), (Partitions{{1, 2}}));
}

TEST(Partition, NoPathLeavesAPartitionAndComesBack) {
  // A feeds U and C; U feeds C: A and C cannot run as one.
  GraphBuilder b;
  b.Input("a").Node("A", {"a"}, {"b"}).Node("U", {"b"}, {"u"}).Node("C", {"b", "u"}, {"c"});
  EXPECT_EQ(Partition(b.graph(), {true, false, true}), (Partitions{{0}, {2}}));
}

TEST(Partition, PartitionsHaveAnOrder) {
  // Two chains that cross two unsupported nodes in opposite directions: A1 -> U1 -> B2 and
  // A2 -> U2 -> B1. {A1, B1} and {A2, B2} would each wait for the other.
  GraphBuilder b;
  b.Input("x").Node("A1", {"x"}, {"a1"}).Node("A2", {"x"}, {"a2"});
  b.Node("U1", {"a1"}, {"u1"}).Node("U2", {"a2"}, {"u2"});
  b.Node("B1", {"a1", "u2"}, {"b1"}).Node("B2", {"a2", "u1"}, {"b2"});
  EXPECT_EQ(Partition(b.graph(), {true, true, false, false, true, true}),
            (Partitions{{0, 1}, {4, 5}}));
}

TEST(Partition, WhatDependsOnLittleIsBesideItsReader) {
  // The dequantized weight could run first of all, but belongs to its product.
  GraphBuilder b;
  b.Input("a").Constant("q", DataType::kFloat32, {2, 4});
  b.Node("A", {"a"}, {"b"}).Node("Dequantize", {"q"}, {"w"}).Node("U", {"b"}, {"u"});
  b.Node("C", {"u", "w"}, {"c"});
  EXPECT_EQ(Partition(b.graph(), {true, true, false, true}), (Partitions{{0}, {1, 3}}));
}

TEST(Partition, CapturesOfABodyCount) {
  GraphBuilder b;
  b.Input("a").Node("A", {"a"}, {"b"}).Node("U", {"b"}, {"u"}).Node("If", {"a"}, {"c"});
  b.graph().nodes.back().captures = {b["u"]};
  EXPECT_EQ(Partition(b.graph(), {true, false, true}), (Partitions{{0}, {2}}));
}

}  // namespace
}  // namespace tandem

#include "graph/graph.h"

#include <gtest/gtest.h>

#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

// a -> Relu -> b -> Add(b, w) -> c -> Tanh -> d; b and d are outputs.
class GraphTest : public ::testing::Test {
 protected:
  GraphTest() {
    builder_.Input("a").Constant("w", DataType::kFloat32, {2, 4});
    builder_.Node("Relu", {"a"}, {"b"}).Node("Add", {"b", "w"}, {"c"}).Node("Tanh", {"c"}, {"d"});
    builder_.Output("d").Output("b");
  }

  GraphBuilder builder_;
};

TEST_F(GraphTest, IndexKnowsMakersAndReaders) {
  const GraphIndex index(builder_.graph());
  EXPECT_EQ(index.Producer(builder_["c"]), 1u);
  EXPECT_EQ(index.Producer(builder_["a"]), GraphIndex::kNoNode);
  EXPECT_EQ(index.Consumers(builder_["b"]), std::vector<NodeId>{1});
  EXPECT_TRUE(index.IsGraphOutput(builder_["b"]));
  EXPECT_FALSE(index.IsGraphOutput(builder_["c"]));
}

TEST_F(GraphTest, ExtractedPartReadsAndReturnsWhatCrossesItsEdge) {
  const Graph part = ExtractNodes(builder_.graph(), GraphIndex(builder_.graph()), {1, 2});
  EXPECT_EQ(Names(part, part.inputs), "b");
  EXPECT_EQ(Names(part, part.outputs), "d");
  EXPECT_EQ(Ops(part), "Add Tanh");
  EXPECT_TRUE(part[part.nodes[0].inputs[1]].weight) << "constants come along";
}

TEST_F(GraphTest, ExtractedPartReturnsValuesThatOnlyTheGraphReturns) {
  const Graph part = ExtractNodes(builder_.graph(), GraphIndex(builder_.graph()), {0});
  EXPECT_EQ(Names(part, part.outputs), "b");
}

TEST_F(GraphTest, AttributesOfAnotherTypeAreAbsent) {
  builder_.Node("X", {"a"}, {"x"}, {{"axis", int64_t{3}}, {"alpha", 0.5F}});
  const Node& node = builder_.graph().nodes.back();
  EXPECT_EQ(IntAttribute(node, "axis", 1), 3);
  EXPECT_EQ(IntAttribute(node, "alpha", 1), 1);
  EXPECT_EQ(FloatAttribute(node, "alpha", 1), 0.5F);
  EXPECT_EQ(IntAttribute(node, "none", 7), 7);
}

}  // namespace
}  // namespace tandem

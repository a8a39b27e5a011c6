#include "graph/infer_shape.h"

#include <gtest/gtest.h>

#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

using Attributes = std::vector<Attribute>;

// The shape of the result of one node, whose inputs are x [2, ?, 4], y [4, 3], s [], and n i64 [k].
class InferShapeTest : public ::testing::Test {
 protected:
  InferShapeTest() {
    b_.Input("x", DataType::kFloat32, Shape{2, -1, 4}).Input("y", DataType::kFloat32, Shape{4, 3});
    b_.Input("s", DataType::kFloat32, Shape{}).Input("n", DataType::kInt64, Shape{3});
    b_.Input("doubtful", DataType::kFloat32, std::nullopt);
    b_.ConstantValues("one", DataType::kInt64, {1}, std::vector<int64_t>{1});
    b_.ConstantValues("first", DataType::kInt64, {}, std::vector<int64_t>{0});
    b_.ConstantValues("sizes", DataType::kInt64, {2}, std::vector<int64_t>{-1, 8});
  }

  std::optional<Shape> Of(const std::string& op, const std::vector<std::string>& inputs,
                          Attributes attributes = {}) {
    const std::string name = "r" + std::to_string(++results_);
    b_.Result(name, DataType::kFloat32, std::nullopt);
    b_.Node(op, inputs, {name}, std::move(attributes));
    Graph graph = b_.graph();
    InferShapes(graph, graph.nodes.back());
    return graph[graph.nodes.back().outputs.front()].shape;
  }

  GraphBuilder b_;
  int results_ = 0;
};

TEST_F(InferShapeTest, Elementwise) {
  EXPECT_EQ(Of("Neg", {"s"}), Shape{});
  EXPECT_EQ(Of("Softmax", {"x"}), (Shape{2, -1, 4}));
  EXPECT_EQ(Of("Add", {"x", "s"}), (Shape{2, -1, 4}));
  EXPECT_EQ(Of("LessOrEqual", {"s", "s"}), Shape{});
  EXPECT_EQ(Of("Where", {"x", "s", "one"}), (Shape{2, -1, 4}));
  EXPECT_EQ(Of("Add", {"x", "doubtful"}), std::nullopt);
}

TEST_F(InferShapeTest, Reductions) {
  EXPECT_EQ(Of("ReduceMean", {"x", "one"}), (Shape{-1, -1, -1}));
  EXPECT_EQ(Of("ReduceMean", {"x", "one"}, {{"keepdims", int64_t{0}}}), (Shape{2, 4}));
  EXPECT_EQ(Of("ReduceSum", {"x"}, {{"keepdims", int64_t{0}}}), Shape{});
  EXPECT_EQ(Of("ReduceSum", {"x", "n"}, {{"keepdims", int64_t{0}}}), std::nullopt);
  EXPECT_EQ(Of("ArgMax", {"y"}, {{"keepdims", int64_t{0}}}), Shape{3});
}

TEST_F(InferShapeTest, ScalarsOfShapes) {
  EXPECT_EQ(Of("Shape", {"x"}), Shape{-1});
  EXPECT_EQ(Of("Gather", {"n", "first"}), Shape{});
  EXPECT_EQ(Of("Gather", {"y", "n"}, {{"axis", int64_t{1}}}), (Shape{4, 3}));
  EXPECT_EQ(Of("Size", {"doubtful"}), Shape{});
}

TEST_F(InferShapeTest, Rearranged) {
  EXPECT_EQ(Of("Transpose", {"x"}), (Shape{4, -1, 2}));
  EXPECT_EQ(Of("Transpose", {"x"}, {{"perm", std::vector<int64_t>{0, 2, 1}}}), (Shape{2, 4, -1}));
  EXPECT_EQ(Of("Reshape", {"x", "sizes"}), (Shape{-1, 8}));
  EXPECT_EQ(Of("Reshape", {"x", "n"}), (Shape{-1, -1, -1}));
  EXPECT_EQ(Of("Unsqueeze", {"y", "one"}), (Shape{4, 1, 3}));
  EXPECT_EQ(Of("Squeeze", {"x", "one"}), (Shape{2, 4}));
  EXPECT_EQ(Of("Squeeze", {"x"}), std::nullopt);
  EXPECT_EQ(Of("Expand", {"y", "n"}), (Shape{-1, 4, 3}));
  EXPECT_EQ(Of("Slice", {"x", "n", "n"}), (Shape{-1, -1, -1}));
}

TEST_F(InferShapeTest, Products) {
  EXPECT_EQ(Of("MatMul", {"x", "y"}), (Shape{2, -1, 3}));
  EXPECT_EQ(Of("MatMul", {"n", "n"}), Shape{});
}

TEST_F(InferShapeTest, OtherOperatorsStayUnknown) {
  EXPECT_EQ(Of("NoSuchOperator", {"x"}), std::nullopt);
}

}  // namespace
}  // namespace tandem

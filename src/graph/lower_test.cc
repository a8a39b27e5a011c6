#include "graph/lower.h"

#include <gtest/gtest.h>

#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

constexpr DataType kF32 = DataType::kFloat32;

// x [4, 64] and y [4, 96].
class LowerTest : public ::testing::Test {
 protected:
  LowerTest() {
    b_.Input("x", kF32, Shape{4, 64}).Input("ids", DataType::kInt64, Shape{5});
    b_.Result("y", kF32, Shape{4, 96}).Result("rows", kF32, Shape{5, 64});
  }

  Graph Lowered() { return Lower(b_.graph()); }

  GraphBuilder b_;
};

TEST_F(LowerTest, MatMulGetsItsWeightAsAnArgument) {
  b_.Constant("w", kF32, {64, 96}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  const Graph graph = Lowered();
  EXPECT_EQ(Ops(graph), "SharedMatMul");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "x");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "y");
  const Matrix& matrix = graph.matrices.at(graph.nodes[0].matrices.at(0));
  EXPECT_EQ(matrix.n, 96);
  EXPECT_EQ(matrix.k, 64);
  EXPECT_FALSE(matrix.outputs_first);
  EXPECT_EQ(matrix.codes->name, "w");
  EXPECT_FALSE(graph[b_["w"]].weight) << "the weight is no constant of the graph any more";
}

TEST_F(LowerTest, ATiedTableIsOneMatrixForBothItsUses) {
  b_.Constant("table", kF32, {96, 64}).Node("Gather", {"table", "ids"}, {"rows"});
  b_.Result("turned", kF32, Shape{64, 96});
  b_.Node("Transpose", {"table"}, {"turned"}, {{"perm", std::vector<int64_t>{1, 0}}});
  b_.Node("MatMul", {"x", "turned"}, {"y"}).Output("rows").Output("y");
  const Graph graph = Lowered();
  EXPECT_EQ(Ops(graph), "SharedGather SharedMatMul");
  for (const Matrix& matrix : graph.matrices) {
    EXPECT_EQ(matrix.n, 96);
    EXPECT_EQ(matrix.k, 64);
    EXPECT_TRUE(matrix.outputs_first);
  }
}

TEST_F(LowerTest, GemmKeepsItsBias) {
  b_.Constant("w", kF32, {96, 64}).Constant("c", kF32, {96});
  b_.Node("Gemm", {"x", "w", "c"}, {"y"}, {{"transB", int64_t{1}}}).Output("y");
  const Graph graph = Lowered();
  EXPECT_EQ(Ops(graph), "SharedMatMul");
  EXPECT_TRUE(graph.matrices.front().outputs_first);
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "x c");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "y");
}

TEST_F(LowerTest, GemmOfAnotherKindIsLeft) {
  b_.Constant("w", kF32, {64, 96});
  b_.Node("Gemm", {"x", "w"}, {"y"}, {{"alpha", 2.0F}}).Output("y");
  EXPECT_EQ(Ops(Lowered()), "Gemm");
}

TEST_F(LowerTest, HalfPrecisionIsComputedInF32) {
  b_.Input("h", DataType::kFloat16, Shape{4, 64}).Constant("w", DataType::kFloat16, {64, 96});
  b_.Result("z", DataType::kFloat16, Shape{4, 96}).Result("z2", DataType::kFloat16, Shape{4, 96});
  b_.Node("MatMul", {"h", "w"}, {"z"}).Node("MatMul", {"h", "w"}, {"z2"}).Output("z").Output("z2");
  EXPECT_EQ(Ops(Lowered()), "Cast SharedMatMul Cast Cast") << "x is cast once";
}

TEST_F(LowerTest, DequantizedCodesStayCodes) {
  b_.Constant("q", DataType::kInt4, {64, 96}).Constant("s", kF32, {2, 96});
  b_.Constant("z", DataType::kInt4, {2, 96}).Result("w", kF32, Shape{64, 96});
  b_.Node("DequantizeLinear", {"q", "s", "z"}, {"w"},
          {{"axis", int64_t{0}}, {"block_size", int64_t{32}}});
  b_.Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  const Graph graph = Lowered();
  EXPECT_EQ(Ops(graph), "SharedMatMul");
  const Matrix& matrix = graph.matrices.front();
  EXPECT_EQ(matrix.code_type, DataType::kInt4);
  EXPECT_EQ(matrix.block_k, 32);
  EXPECT_EQ(matrix.block_n, 1);
  EXPECT_EQ(matrix.zero_points->name, "z");
  EXPECT_EQ(matrix.zero_point_row_elements, 96);
}

TEST_F(LowerTest, ScalesOfAnotherShapeAreNotTaken) {
  b_.Constant("q", DataType::kInt8, {64, 96}).Constant("s", kF32, {3, 96});
  b_.Result("w", kF32, Shape{64, 96});
  b_.Node("DequantizeLinear", {"q", "s"}, {"w"},
          {{"axis", int64_t{0}}, {"block_size", int64_t{32}}});
  b_.Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  EXPECT_EQ(Ops(Lowered()), "DequantizeLinear MatMul");
}

std::vector<Attribute> NBits(int64_t bits, int64_t block) {
  return {{"K", int64_t{64}}, {"N", int64_t{96}}, {"bits", bits}, {"block_size", block}};
}

TEST_F(LowerTest, MatMulNBitsWithZeroPointsAndBias) {
  b_.Constant("B", DataType::kUint8, {96, 3, 12}).Constant("s", kF32, {96 * 3});
  b_.Constant("z", DataType::kUint8, {96 * 2}).Constant("bias", kF32, {96});
  b_.Node("MatMulNBits", {"x", "B", "s", "z", "", "bias"}, {"y"}, NBits(4, 24), "com.microsoft");
  b_.Output("y");
  const Graph graph = Lowered();
  EXPECT_EQ(Ops(graph), "SharedMatMul");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "x bias");
  const Matrix& matrix = graph.matrices.front();
  EXPECT_EQ(matrix.code_type, DataType::kUint4);
  EXPECT_EQ(matrix.row_elements, 72) << "three blocks of 24, the last one padded";
  EXPECT_EQ(matrix.zero_point_row_elements, 4) << "three zero points, up to a whole byte";
}

TEST_F(LowerTest, MatMulNBitsWithoutZeroPointsMeansHalfTheRange) {
  b_.Constant("B", DataType::kUint8, {96, 2, 32}).Constant("s", kF32, {96 * 2});
  b_.Node("MatMulNBits", {"x", "B", "s"}, {"y"}, NBits(8, 32), "com.microsoft").Output("y");
  EXPECT_EQ(Lowered().matrices.front().default_zero_point, 128);
}

TEST_F(LowerTest, ActivationsAreQuantizedAsTheModelOrTheUserSays) {
  b_.Constant("B", DataType::kUint8, {96, 2, 16}).Constant("s", kF32, {96 * 2});
  b_.Constant("w", kF32, {64, 96}).Result("z", kF32, Shape{4, 96}).Result("e", kF32, Shape{4, 96});
  std::vector<Attribute> exact = NBits(4, 32);
  std::vector<Attribute> fast = exact;
  exact.push_back({"accuracy_level", int64_t{1}});
  fast.push_back({"accuracy_level", int64_t{4}});
  b_.Node("MatMulNBits", {"x", "B", "s"}, {"y"}, fast, "com.microsoft").Output("y");
  b_.Node("MatMulNBits", {"x", "B", "s"}, {"e"}, exact, "com.microsoft").Output("e");
  b_.Node("MatMul", {"x", "w"}, {"z"}).Output("z");
  const auto int8 = [&](Activations activations) {
    std::vector<int64_t> flags;
    for (const Node& node : Lower(b_.graph(), activations).nodes) {
      flags.push_back(IntAttribute(node, "int8", 0));
    }
    return flags;
  };
  EXPECT_EQ(int8(Activations::kAuto), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(int8(Activations::kF32), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(int8(Activations::kInt8), (std::vector<int64_t>{1, 1, 0})) << "floats have no codes";
}

TEST_F(LowerTest, MatMulNBitsOfAnotherKindIsLeft) {
  b_.Constant("B", DataType::kUint8, {96, 2, 16}).Constant("s", kF32, {96 * 2});
  b_.Constant("g", DataType::kInt32, {64});
  b_.Node("MatMulNBits", {"x", "B", "s", "", "g"}, {"y"}, NBits(4, 32), "com.microsoft");
  EXPECT_EQ(Ops(Lowered()), "") << "nobody reads y";
  b_.Output("y");
  EXPECT_EQ(Ops(Lowered()), "MatMulNBits");
}

std::vector<Attribute> GatherAttributes(int64_t bits, int64_t quantize_axis = 1) {
  return {{"bits", bits}, {"block_size", int64_t{16}}, {"quantize_axis", quantize_axis}};
}

TEST_F(LowerTest, GatherBlockQuantizedReadsRowsOfCodes) {
  b_.Constant("q", DataType::kUint8, {96, 32}).Constant("s", kF32, {96, 4});
  b_.Node("GatherBlockQuantized", {"q", "ids", "s"}, {"rows"}, GatherAttributes(4),
          "com.microsoft");
  b_.Output("rows");
  const Graph graph = Lowered();
  EXPECT_EQ(Ops(graph), "SharedGather");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "ids");
  const Matrix& matrix = graph.matrices.front();
  EXPECT_EQ(matrix.code_type, DataType::kUint4);
  EXPECT_EQ(matrix.n, 96);
  EXPECT_EQ(matrix.k, 64);
  EXPECT_EQ(matrix.default_zero_point, 8);
}

TEST_F(LowerTest, GatherBlockQuantizedOfFourBitTypesHasNoZeroPointOfItsOwn) {
  b_.Constant("q", DataType::kInt4, {96, 64}, 1).Constant("s", kF32, {96, 4});
  b_.Constant("z", DataType::kInt4, {96, 4}, 2).Result("more", kF32, Shape{5, 64});
  b_.Node("GatherBlockQuantized", {"q", "ids", "s"}, {"rows"}, GatherAttributes(4),
          "com.microsoft");
  b_.Node("GatherBlockQuantized", {"q", "ids", "s", "z"}, {"more"}, GatherAttributes(4, -1),
          "com.microsoft");
  b_.Output("rows").Output("more");
  const Graph graph = Lowered();
  ASSERT_EQ(Ops(graph), "SharedGather SharedGather");
  EXPECT_EQ(graph.matrices[0].default_zero_point, 0);
  EXPECT_FALSE(graph.matrices[0].zero_points);
  EXPECT_EQ(graph.matrices[1].zero_point_type, DataType::kInt4);
  EXPECT_EQ(graph.matrices[1].zero_point_row_elements, 4);
}

TEST_F(LowerTest, GatherBlockQuantizedAlongAnotherAxisIsLeft) {
  b_.Constant("q", DataType::kUint8, {96, 64}).Constant("s", kF32, {6, 64});
  b_.Node("GatherBlockQuantized", {"q", "ids", "s"}, {"rows"}, GatherAttributes(8, 0),
          "com.microsoft");
  b_.Output("rows");
  EXPECT_EQ(Ops(Lowered()), "GatherBlockQuantized");
}

TEST_F(LowerTest, AWeightWithAnotherReaderStaysAConstantForIt) {
  b_.Constant("w", kF32, {64, 96}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  b_.Node("Relu", {"w"}, {"r"}).Output("r");
  const Graph graph = Lowered();
  EXPECT_EQ(Ops(graph), "SharedMatMul Relu");
  EXPECT_TRUE(graph[b_["w"]].weight);
}

TEST_F(LowerTest, VectorsSmallMatricesAndLeftOperandsStay) {
  b_.Input("v", kF32, Shape{64}).Result("vy", kF32, Shape{96}).Result("sy", kF32, Shape{4, 2});
  b_.Constant("w", kF32, {64, 96}).Node("MatMul", {"v", "w"}, {"vy"}).Output("vy");
  b_.Constant("small", kF32, {64, 2}).Node("MatMul", {"x", "small"}, {"sy"}).Output("sy");
  b_.Constant("left", kF32, {96, 4}).Result("ly", kF32, Shape{96, 64});
  b_.Node("MatMul", {"left", "x"}, {"ly"}).Output("ly");
  EXPECT_EQ(Ops(Lowered()), "MatMul MatMul MatMul");
}

TEST_F(LowerTest, KnowsWhichNodesNobodyElseHasToCompute) {
  b_.Constant("q", DataType::kInt8, {64, 96}).Constant("s", kF32, {64});
  b_.Result("w", kF32, Shape{64, 96});
  b_.Node("DequantizeLinear", {"q", "s"}, {"w"}, {{"axis", int64_t{0}}});
  b_.Node("MatMul", {"x", "w"}, {"y"}).Output("y").Node("Relu", {"y"}, {"r"}).Output("r");
  const GraphIndex index(b_.graph());
  const LoweredNodes with(b_.graph(), index, /*has_shared_ops=*/true);
  EXPECT_TRUE(with.Contains(0));
  EXPECT_TRUE(with.Contains(1));
  EXPECT_FALSE(with.Contains(2));
  const LoweredNodes without(b_.graph(), index, /*has_shared_ops=*/false);
  EXPECT_FALSE(without.Contains(0));
}

}  // namespace
}  // namespace tandem

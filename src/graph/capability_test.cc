#include "graph/capability.h"

#include <gmock/gmock.h>

#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// The reason of the last node, or "" when it is taken.
std::string Reason(const Graph& graph, const DeviceTraits& traits = {}) {
  return DeclinedNodes(graph, traits).back().value_or("");
}

TEST(Capability, OrdinaryNodesAreTaken) {
  GraphBuilder b;
  b.Input("x").Node("Relu", {"x"}, {"y"}).Output("y");
  EXPECT_EQ(Reason(b.graph()), "");
}

TEST(Capability, StringsAndDoublesAreLeft) {
  GraphBuilder b;
  b.Input("s", DataType::kString).Node("Identity", {"s"}, {"t"});
  EXPECT_THAT(Reason(b.graph()), HasSubstr("'s'"));
  b.Input("d", DataType::kFloat64).Node("Neg", {"d"}, {"e"});
  EXPECT_THAT(Reason(b.graph()), HasSubstr("f64"));
}

TEST(Capability, UnknownRankIsLeft) {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, std::nullopt).Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(Reason(b.graph()), HasSubstr("unknown rank"));
}

TEST(Capability, ScalarInputsAreLeftWhereTheyLookLikeUnknownRank) {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, Shape{}).Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(Reason(b.graph()), "");
  EXPECT_THAT(Reason(b.graph(), {.knows_unknown_rank = false}), HasSubstr("scalar"));
  b.Node("Relu", {"y"}, {"z"});
  EXPECT_EQ(Reason(b.graph(), {.knows_unknown_rank = false}), "") << "made by a node: a scalar";
}

TEST(Capability, StaticEmptyTensorsAreLeft) {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, Shape{0, 3}).Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(Reason(b.graph()), HasSubstr("[0,3] is empty"));
}

TEST(Capability, WideIntegerArithmeticIsLeft) {
  GraphBuilder b;
  b.Input("x", DataType::kInt64).Node("Add", {"x", "x"}, {"y"}).Output("y");
  EXPECT_THAT(Reason(b.graph()), HasSubstr("32 bits"));
}

TEST(Capability, UnreadableAttributesAreLeft) {
  GraphBuilder b;
  b.Input("x").Node("Odd", {"x"}, {"y"}, {{"type_proto", Unreadable{}}});
  EXPECT_THAT(Reason(b.graph()), HasSubstr("type_proto"));
}

// A MatMul over DequantizeLinear(codes [64, 96]) with scales along `axis`.
std::vector<std::optional<std::string>> Dequantized(int64_t axis, int64_t block_size,
                                                    const DeviceTraits& traits) {
  GraphBuilder b;
  Shape scales{axis == 0 ? 64 : 96};
  if (block_size > 0) scales = {axis == 0 ? 64 / block_size : 64, axis == 0 ? 96 : 96 / block_size};
  b.Input("x", DataType::kFloat32, Shape{4, 64}).Constant("q", DataType::kInt8, {64, 96});
  b.Constant("s", DataType::kFloat32, scales);
  b.Result("w", DataType::kFloat32, Shape{64, 96}).Result("y", DataType::kFloat32, Shape{4, 96});
  b.Node("DequantizeLinear", {"q", "s"}, {"w"}, {{"axis", axis}, {"block_size", block_size}});
  b.Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  return DeclinedNodes(b.graph(), traits);
}

TEST(Capability, ScalesAlongInputsAreLeftWithoutSharedOps) {
  const DeviceTraits plain{.has_shared_ops = false};
  EXPECT_TRUE(Dequantized(0, 0, plain).front());
  EXPECT_TRUE(Dequantized(1, 32, plain).front());
  EXPECT_FALSE(Dequantized(1, 0, plain).front());
  EXPECT_FALSE(Dequantized(0, 32, plain).front());
  EXPECT_FALSE(Dequantized(0, 0, {}).front()) << "SharedMatMul computes it";
}

TEST(Capability, ContribOperatorsThatOpenVinoGetsWrongAreLeft) {
  GraphBuilder b;
  b.Input("x").Constant("B", DataType::kUint8, {2, 1, 16}).Constant("s", DataType::kFloat32, {2});
  b.Constant("g", DataType::kInt32, {32});
  b.Node("MatMulNBits", {"x", "B", "s", "", "g"}, {"y"}, {}, "com.microsoft");
  EXPECT_THAT(Reason(b.graph()), HasSubstr("g_idx"));
  b.Input("past", DataType::kFloat32, Shape{1, 3, 8, 64});
  b.Node("GroupQueryAttention", {"x", "x", "x"}, {"a"}, {}, "com.microsoft");
  EXPECT_THAT(Reason(b.graph()), HasSubstr("without past"));
  b.Node("GroupQueryAttention", {"x", "x", "x", "past", "past"}, {"c"}, {{"softcap", 30.0F}},
         "com.microsoft");
  EXPECT_THAT(Reason(b.graph()), HasSubstr("softcap"));
  b.Result("longer", DataType::kFloat32, Shape{1, 3, 9, 64});
  b.Result("same", DataType::kFloat32, Shape{1, 3, 8, 64});
  b.Node("GroupQueryAttention", {"x", "", "", "past", "past"}, {"d", "longer"}, {},
         "com.microsoft");
  EXPECT_THAT(Reason(b.graph()), HasSubstr("past of fixed length"));
  b.Node("GroupQueryAttention", {"x", "", "", "past", "past"}, {"e", "same"}, {}, "com.microsoft");
  EXPECT_EQ(Reason(b.graph()), "");
  b.Input("start", DataType::kInt64, Shape{1});
  b.Node("RotaryEmbedding", {"x", "start", "x", "x"}, {"r"}, {}, "com.microsoft");
  EXPECT_THAT(Reason(b.graph()), HasSubstr("start position"));
}

TEST(Capability, ANodeIsLeftWithItsBody) {
  GraphBuilder body;
  body.Input("s", DataType::kString).Node("Identity", {"s"}, {"t"}).Output("t");
  GraphBuilder b;
  b.Input("c", DataType::kBool, Shape{}).Input("x");
  b.Result("y", DataType::kFloat32);
  b.Node("If", {"c"}, {"y"},
         {{"then_branch", std::make_shared<const Graph>(std::move(body.graph()))}});
  EXPECT_THAT(Reason(b.graph()), HasSubstr("its body"));
}

}  // namespace
}  // namespace tandem

#include "graph/capability.h"

#include <gmock/gmock.h>

#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// The reason of the last node, or "" when it is taken.
std::string WhyDeclined(const Graph& graph) {
  return DeclinedNodes(graph, /*has_shared_ops=*/true).back().value_or("");
}

TEST(Capability, OrdinaryNodesAreTaken) {
  GraphBuilder b;
  b.Input("x").Node("Relu", {"x"}, {"y"}).Output("y");
  EXPECT_EQ(WhyDeclined(b.graph()), "");
}

TEST(Capability, StringsAndDoublesAreLeft) {
  GraphBuilder b;
  b.Input("s", DataType::kString).Node("Identity", {"s"}, {"t"});
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("'s'"));
  b.Input("d", DataType::kFloat64).Node("Neg", {"d"}, {"e"});
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("f64"));
}

TEST(Capability, UnknownRankIsLeft) {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, std::nullopt).Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("unknown rank"));
}

TEST(Capability, WhatNobodyReadsDoesNotMatter) {
  GraphBuilder b;
  b.Input("x").Result("mask", DataType::kUndefined, std::nullopt);
  b.Node("Dropout", {"x"}, {"y", "mask"}).Output("y");
  EXPECT_EQ(WhyDeclined(b.graph()), "");
  b.Output("mask");
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("'mask'"));
}

TEST(Capability, StaticEmptyTensorsAreLeft) {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, Shape{0, 3}).Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("[0,3] is empty"));
}

TEST(Capability, ConstantsThatSayNoneMayBeEmpty) {
  GraphBuilder b;
  b.Input("x").Constant("none", DataType::kFloat32, {0}).Constant("axes", DataType::kInt64, {0});
  b.Constant("sizes", DataType::kInt64, {2}).Input("fed", DataType::kInt64, Shape{0});
  b.Node("Resize", {"x", "none", "none", "sizes"}, {"y"});
  EXPECT_EQ(WhyDeclined(b.graph()), "");
  b.Node("ReduceMean", {"x", "axes"}, {"m"});
  EXPECT_EQ(WhyDeclined(b.graph()), "");
  b.Node("ReduceMean", {"x", "fed"}, {"f"});
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("[0] is empty"));
  b.Node("Concat", {"x", "none"}, {"c"});
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("[0] is empty"));
}

TEST(Capability, WideIntegerArithmeticIsLeft) {
  GraphBuilder b;
  b.Input("x", DataType::kInt64).Node("Add", {"x", "x"}, {"y"}).Output("y");
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("32 bits"));
}

TEST(Capability, UnreadableAttributesAreLeft) {
  GraphBuilder b;
  b.Input("x").Node("Odd", {"x"}, {"y"}, {{"type_proto", Unreadable{}}});
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("type_proto"));
}

// A MatMul over DequantizeLinear(codes [64, 96]) with scales along `axis`.
std::vector<std::optional<std::string>> Dequantized(int64_t axis, int64_t block_size,
                                                    bool has_shared_ops) {
  GraphBuilder b;
  Shape scales{axis == 0 ? 64 : 96};
  if (block_size > 0) scales = {axis == 0 ? 64 / block_size : 64, axis == 0 ? 96 : 96 / block_size};
  b.Input("x", DataType::kFloat32, Shape{4, 64}).Constant("q", DataType::kInt8, {64, 96});
  b.Constant("s", DataType::kFloat32, scales);
  b.Result("w", DataType::kFloat32, Shape{64, 96}).Result("y", DataType::kFloat32, Shape{4, 96});
  b.Node("DequantizeLinear", {"q", "s"}, {"w"}, {{"axis", axis}, {"block_size", block_size}});
  b.Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  return DeclinedNodes(b.graph(), has_shared_ops);
}

TEST(Capability, ScalesAlongInputsAreLeftWithoutSharedOps) {
  EXPECT_TRUE(Dequantized(0, 0, false).front());
  EXPECT_TRUE(Dequantized(1, 32, false).front());
  EXPECT_FALSE(Dequantized(1, 0, false).front());
  EXPECT_FALSE(Dequantized(0, 32, false).front());
  EXPECT_FALSE(Dequantized(0, 0, true).front()) << "SharedMatMul computes it";
}

// Whether the dequantized [24, 16] constant, with scales along `axis`, is left to others for
// `reader`.
bool IsLeft(int64_t axis, const std::string& reader, std::vector<Attribute> attributes = {}) {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, Shape{4, 24}).Input("ids", DataType::kInt64, Shape{3});
  b.Constant("q", DataType::kInt8, {24, 16})
      .Constant("s", DataType::kFloat32, {axis == 0 ? 24 : 16});
  b.Result("w", DataType::kFloat32, Shape{24, 16}).Result("y", DataType::kFloat32, Shape{4, 16});
  b.Node("DequantizeLinear", {"q", "s"}, {"w"}, {{"axis", axis}});
  if (reader == "Gather") {
    b.Node("Gather", {"w", "ids"}, {"y"});
  } else if (reader == "Transpose") {
    b.Node("Transpose", {"w"}, {"y"});
  } else {
    b.Node(reader, {"x", "w"}, {"y"}, std::move(attributes));
  }
  b.Output("y");
  return DeclinedNodes(b.graph(), true).front().has_value();
}

TEST(Capability, SmallDequantizedConstantsAreLeftWhereOpenVinoMixesUpTheirScales) {
  EXPECT_FALSE(IsLeft(1, "MatMul"));
  EXPECT_FALSE(IsLeft(0, "Mul"));
  EXPECT_TRUE(IsLeft(0, "MatMul"));
  EXPECT_TRUE(IsLeft(1, "Gather"));
  EXPECT_TRUE(IsLeft(1, "Transpose"));
  EXPECT_TRUE(IsLeft(1, "Gemm", {{"transB", int64_t{1}}}));
}

TEST(Capability, ShortIntegersThatWrapAroundAreLeft) {
  GraphBuilder b;
  b.Input("x", DataType::kUint8).Node("Add", {"x", "x"}, {"y"});
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("u8"));
  b.Input("i", DataType::kInt32).Node("Add", {"i", "i"}, {"j"});
  EXPECT_EQ(WhyDeclined(b.graph()), "");
}

TEST(Capability, ContribOperatorsThatOpenVinoGetsWrongAreLeft) {
  GraphBuilder b;
  b.Input("x").Constant("B", DataType::kUint8, {2, 1, 16}).Constant("s", DataType::kFloat32, {2});
  b.Constant("g", DataType::kInt32, {32});
  b.Node("MatMulNBits", {"x", "B", "s", "", "g"}, {"y"}, {}, "com.microsoft");
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("g_idx"));
  b.Input("past", DataType::kFloat32, Shape{1, 3, 8, 64});
  b.Node("GroupQueryAttention", {"x", "x", "x"}, {"a"}, {}, "com.microsoft");
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("without past"));
  b.Node("GroupQueryAttention", {"x", "x", "x", "past", "past"}, {"c"}, {{"softcap", 30.0F}},
         "com.microsoft");
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("softcap"));
  b.Result("longer", DataType::kFloat32, Shape{1, 3, 9, 64});
  b.Result("same", DataType::kFloat32, Shape{1, 3, 8, 64});
  b.Node("GroupQueryAttention", {"x", "", "", "past", "past"}, {"d", "longer"}, {},
         "com.microsoft");
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("past of fixed length"));
  b.Node("GroupQueryAttention", {"x", "", "", "past", "past"}, {"e", "same"}, {}, "com.microsoft");
  EXPECT_EQ(WhyDeclined(b.graph()), "");
  b.Input("start", DataType::kInt64, Shape{1});
  b.Node("RotaryEmbedding", {"x", "start", "x", "x"}, {"r"}, {}, "com.microsoft");
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("start position"));
}

TEST(Capability, ANodeIsLeftWithItsBody) {
  GraphBuilder body;
  body.Input("s", DataType::kString).Node("Identity", {"s"}, {"t"}).Output("t");
  GraphBuilder b;
  b.Input("c", DataType::kBool, Shape{}).Input("x");
  b.Result("y", DataType::kFloat32);
  b.Node("If", {"c"}, {"y"},
         {{"then_branch", std::make_shared<const Graph>(std::move(body.graph()))}});
  EXPECT_THAT(WhyDeclined(b.graph()), HasSubstr("its body"));
}

}  // namespace
}  // namespace tandem

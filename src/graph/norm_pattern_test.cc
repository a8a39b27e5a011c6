#include "graph/norm_pattern.h"

#include <gtest/gtest.h>

#include "graph/lower.h"
#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr DataType kF16 = DataType::kFloat16;

// x [2, 5, 8] with a weight [8]; what a test leaves out is as exporters write it.
struct Norm {
  DataType type = kF32;
  std::string square = "Pow";
  std::string inverse = "Reciprocal";  // or "One" (1 / root), "Div" (x / root)
  float exponent = 2;
  float one = 1;
  int64_t axis = -1;
  bool has_axes_attribute = false;
  int64_t keepdims = 1;
  bool epsilon_first = false;
  bool weight_first = false;
  bool normalizes_another = false;
  Shape weight{8};
  bool casts = false;  // from f16 and back, before the weight

  Graph Lowered() const {
    GraphBuilder b;
    const DataType inner = casts ? kF32 : type;
    b.Input("x", type, Shape{2, 5, 8}).Input("other", inner, Shape{2, 5, 8});
    b.Input("weight", type, weight);
    b.ConstantValues<float>("two", kF32, {}, {exponent});
    b.ConstantValues<float>("one", kF32, {}, {one}).ConstantValues<float>("eps", kF32, {}, {1e-3F});
    b.ConstantValues<int64_t>("axes", DataType::kInt64, {1}, {axis});
    for (const char* value : {"mean", "sum", "root", "inverse"})
      b.Result(value, inner, Shape{2, 5, 1});
    std::string x = "x";
    if (casts) {
      b.Result("x32", kF32, Shape{2, 5, 8});
      b.Node("Cast", {"x"}, {"x32"}, {{"to", static_cast<int64_t>(kF32)}});
      x = "x32";
    }
    b.Node(square, {x, square == "Pow" ? "two" : x}, {"squared"});
    std::vector<Attribute> attributes{{"keepdims", keepdims}};
    if (has_axes_attribute) attributes.push_back({"axes", std::vector<int64_t>{axis}});
    b.Node("ReduceMean",
           has_axes_attribute ? std::vector<std::string>{"squared"}
                              : std::vector<std::string>{"squared", "axes"},
           {"mean"}, attributes);
    b.Node("Add",
           epsilon_first ? std::vector<std::string>{"eps", "mean"}
                         : std::vector<std::string>{"mean", "eps"},
           {"sum"});
    b.Node("Sqrt", {"sum"}, {"root"});
    const std::string divided = normalizes_another ? "other" : x;
    if (inverse == "Div") {
      b.Node("Div", {divided, "root"}, {"normed"});
    } else {
      if (inverse == "One") {
        b.Node("Div", {"one", "root"}, {"inverse"});
      } else {
        b.Node(inverse, {"root"}, {"inverse"});
      }
      b.Node("Mul", {divided, "inverse"}, {"normed"});
    }
    std::string normed = "normed";
    if (casts) {
      b.Result("back", type, Shape{2, 5, 8});
      b.Node("Cast", {"normed"}, {"back"}, {{"to", static_cast<int64_t>(type)}});
      normed = "back";
    }
    b.Result("y", type, Shape{2, 5, 8});
    b.Node("Mul",
           weight_first ? std::vector<std::string>{"weight", normed}
                        : std::vector<std::string>{normed, "weight"},
           {"y"});
    return Lower(b.Output("y").graph());
  }

  bool IsOne() const { return Ops(Lowered()) == "RmsNorm"; }
};

TEST(RmsNormPattern, IsOneNode) {
  const Graph graph = Norm{}.Lowered();
  ASSERT_EQ(Ops(graph), "RmsNorm");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "x weight");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "y");
  EXPECT_FLOAT_EQ(FloatAttribute(graph.nodes[0], "epsilon", 0), 1e-3F);
}

TEST(RmsNormPattern, MayBeWrittenInManyWays) {
  for (const char* square : {"Pow", "Mul"}) {
    for (const char* inverse : {"Reciprocal", "One", "Div"}) {
      EXPECT_TRUE((Norm{.square = square, .inverse = inverse}.IsOne())) << square << " " << inverse;
    }
  }
  EXPECT_TRUE(Norm{.axis = 2}.IsOne());
  EXPECT_TRUE(Norm{.has_axes_attribute = true}.IsOne());
  EXPECT_TRUE(Norm{.epsilon_first = true}.IsOne());
  EXPECT_TRUE(Norm{.weight_first = true}.IsOne());
}

TEST(RmsNormPattern, CastsAreLookedThrough) {
  const Graph graph = Norm{.type = kF16, .casts = true}.Lowered();
  ASSERT_EQ(Ops(graph), "Cast Cast RmsNorm Cast") << "x, the weight, and the result";
  EXPECT_EQ(Names(graph, graph.nodes[3].outputs), "y");
}

TEST(RmsNormPattern, WhatComputesSomethingElseIsLeft) {
  EXPECT_FALSE(Norm{.exponent = 3}.IsOne());
  EXPECT_FALSE((Norm{.inverse = "One", .one = 2}.IsOne()));
  EXPECT_FALSE((Norm{.inverse = "Neg"}.IsOne()));
  EXPECT_FALSE((Norm{.square = "Add"}.IsOne()));
  EXPECT_FALSE(Norm{.axis = 1}.IsOne());
  EXPECT_FALSE((Norm{.axis = 1, .has_axes_attribute = true}.IsOne()));
  EXPECT_FALSE(Norm{.keepdims = 0}.IsOne());
  EXPECT_FALSE(Norm{.normalizes_another = true}.IsOne());
  EXPECT_FALSE((Norm{.weight = {1}}.IsOne()));
  EXPECT_FALSE((Norm{.weight = {5, 8}}.IsOne()));
}

// x [2, 5, 8], skip likewise, weight and bias [8].
class NormOperatorTest : public ::testing::Test {
 protected:
  NormOperatorTest() {
    for (const char* x : {"x", "skip"}) b_.Input(x, kF32, Shape{2, 5, 8});
    b_.Input("weight", kF32, Shape{8}).Input("bias", kF32, Shape{8});
    for (const char* y : {"y", "mean", "inverse", "sum"}) b_.Result(y, kF32, Shape{2, 5, 8});
  }

  void SkipNorm(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                std::vector<Attribute> attributes = {}) {
    b_.Node("SkipSimplifiedLayerNormalization", inputs, {outputs.front()}, std::move(attributes),
            "com.microsoft");
    for (size_t i = 1; i < outputs.size(); ++i) {
      b_.graph().nodes.back().outputs.push_back(outputs[i].empty() ? kNoValue : b_[outputs[i]]);
    }
    b_.Output("y");
  }

  GraphBuilder b_;
};

TEST_F(NormOperatorTest, IsTakenOverTheLastAxis) {
  for (const char* op : {"RMSNormalization", "SimplifiedLayerNormalization"}) {
    for (int64_t axis : {-1, 2, 1}) {
      GraphBuilder b;
      b.Input("x", kF32, Shape{2, 5, 8}).Input("weight", kF32, Shape{8});
      b.Node(op, {"x", "weight"}, {"y"}, {{"axis", axis}, {"epsilon", 0.5F}}).Output("y");
      const Graph graph = Lower(b.graph());
      ASSERT_EQ(Ops(graph), axis == 1 ? op : "RmsNorm") << op << " " << axis;
      EXPECT_EQ(FloatAttribute(graph.nodes[0], "epsilon", 0), 0.5F);
    }
  }
}

TEST_F(NormOperatorTest, AWeightOfAnotherSizeIsLeft) {
  b_.Input("short", kF32, Shape{1}).Node("RMSNormalization", {"x", "short"}, {"y"}).Output("y");
  EXPECT_EQ(Ops(Lower(b_.graph())), "RMSNormalization");
}

TEST_F(NormOperatorTest, SkipIsASumAndANorm) {
  SkipNorm({"x", "skip", "weight"}, {"y"}, {{"epsilon", 0.25F}});
  const Graph graph = Lower(b_.graph());
  ASSERT_EQ(Ops(graph), "Add RmsNorm");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "x skip");
  EXPECT_EQ(graph.nodes[1].inputs[0], graph.nodes[0].outputs[0]);
  EXPECT_EQ(Names(graph, graph.nodes[1].outputs), "y");
  EXPECT_EQ(FloatAttribute(graph.nodes[1], "epsilon", 0), 0.25F);
}

TEST_F(NormOperatorTest, TheSumMayBeAResult) {
  SkipNorm({"x", "skip", "weight"}, {"y", "", "", "sum"});
  b_.Output("sum");
  const Graph graph = Lower(b_.graph());
  ASSERT_EQ(Ops(graph), "Add RmsNorm");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "sum");
  EXPECT_EQ(Names(graph, graph.nodes[1].inputs), "sum weight");
}

TEST_F(NormOperatorTest, TheSumHasTheBiasToo) {
  SkipNorm({"x", "skip", "weight", "bias"}, {"y", "", "", "sum"});
  b_.Output("sum");
  const Graph graph = Lower(b_.graph());
  ASSERT_EQ(Ops(graph), "Add Add RmsNorm");
  EXPECT_EQ(graph.nodes[1].inputs[0], graph.nodes[0].outputs[0]);
  EXPECT_EQ(graph.nodes[1].inputs[1], b_["bias"]);
  EXPECT_EQ(Names(graph, graph.nodes[1].outputs), "sum");
  EXPECT_EQ(Names(graph, graph.nodes[2].inputs), "sum weight");
}

TEST_F(NormOperatorTest, WithStatisticsItIsLeft) {
  SkipNorm({"x", "skip", "weight"}, {"y", "mean"});
  b_.Output("mean");
  EXPECT_EQ(Ops(Lower(b_.graph())), "SkipSimplifiedLayerNormalization");
}

TEST_F(NormOperatorTest, AProductTakesTheSumIn) {
  b_.Constant("big", kF32, {8, 64});
  b_.Constant("back", kF32, {64, 8}).Result("wide", kF32, Shape{2, 5, 64});
  b_.Result("p", kF32, Shape{2, 5, 8});
  b_.Node("MatMul", {"x", "big"}, {"wide"}).Node("MatMul", {"wide", "back"}, {"p"});
  SkipNorm({"p", "skip", "weight"}, {"y", "", "", "sum"});
  b_.Output("sum");
  const Graph graph = Lower(b_.graph());
  ASSERT_EQ(Ops(graph), "SharedMatMul SharedMatMul RmsNorm");
  EXPECT_EQ(Names(graph, graph.nodes[1].outputs), "sum");
}

}  // namespace
}  // namespace tandem

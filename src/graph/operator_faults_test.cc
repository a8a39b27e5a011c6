#include "graph/operator_faults.h"

#include <gmock/gmock.h>

#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// What is known of the first node, or "".
std::string Known(const Graph& graph) {
  return OperatorFault(graph, GraphIndex(graph), graph.nodes.front()).value_or("");
}

// The same for one node over as many inputs as it is given shapes.
std::string Known(const std::string& op_type, std::vector<Attribute> attributes,
                  const std::vector<Shape>& shapes = {{2, 4}}, DataType type = DataType::kFloat32) {
  GraphBuilder b;
  std::vector<std::string> inputs;
  for (const Shape& shape : shapes) {
    inputs.push_back("x" + std::to_string(inputs.size()));
    b.Input(inputs.back(), type, shape);
  }
  b.Node(op_type, inputs, {"y"}, std::move(attributes)).Output("y");
  return Known(b.graph());
}

// Of as many inputs.
std::vector<Shape> Shapes(size_t count) {
  return std::vector<Shape>(count, Shape{2, 4});
}

using Ints = std::vector<int64_t>;

TEST(OperatorFaults, OrdinaryOperatorsHaveNone) {
  EXPECT_EQ(Known("Relu", {}), "");
  EXPECT_EQ(Known("Resize", {{"mode", std::string("cubic")}}), "");
  EXPECT_EQ(Known("SpaceToDepth", {{"mode", std::string("DCR")}}), "");
  EXPECT_EQ(Known("LSTM", {{"hidden_size", int64_t{3}}}, Shapes(3)), "");
  EXPECT_EQ(Known("Attention", {{"is_causal", int64_t{1}}}, Shapes(3)), "");
}

TEST(OperatorFaults, AttributesThatOpenVinoDoesNotSee) {
  EXPECT_THAT(Known("Resize", {{"antialias", int64_t{1}}}), HasSubstr("antialias"));
  EXPECT_THAT(Known("Resize", {{"exclude_outside", int64_t{1}}}), HasSubstr("exclude_outside"));
  EXPECT_THAT(Known("Resize", {{"keep_aspect_ratio_policy", std::string("not_larger")}}),
              HasSubstr("keep_aspect_ratio_policy"));
  EXPECT_THAT(Known("SpaceToDepth", {{"mode", std::string("CRD")}}), HasSubstr("mode"));
  EXPECT_THAT(Known("Attention", {{"left_window_size", int64_t{2}}}), HasSubstr("window"));
  EXPECT_THAT(Known("Attention", {{"right_window_size", int64_t{0}}}), HasSubstr("window"));
  for (const char* layer : {"GRU", "LSTM", "RNN"}) {
    EXPECT_THAT(Known(layer, {{"layout", int64_t{1}}}), HasSubstr("batch first"));
  }
}

TEST(OperatorFaults, InputsThatOpenVinoDoesNotSee) {
  EXPECT_THAT(Known("LSTM", {}, Shapes(8)), HasSubstr("peepholes"));
  EXPECT_THAT(Known("Attention", {{"is_causal", int64_t{1}}}, Shapes(6)), HasSubstr("two masks"));
  EXPECT_EQ(Known("Attention", {}, Shapes(6)), "");
}

TEST(OperatorFaults, WindowsBehindTheInput) {
  const auto known = [](int64_t kernel, int64_t stride, int64_t pad, int64_t ceil_mode) {
    return Known("MaxPool", {{"kernel_shape", Ints{kernel, kernel}},
                             {"strides", Ints{stride, stride}},
                             {"pads", Ints{pad, pad, pad, pad}},
                             {"ceil_mode", ceil_mode}});
  };
  EXPECT_EQ(known(3, 2, 0, 1), "");
  EXPECT_EQ(known(1, 2, 0, 0), "");
  EXPECT_THAT(known(1, 2, 0, 1), HasSubstr("ceil_mode"));
  EXPECT_THAT(known(3, 2, 2, 1), HasSubstr("ceil_mode"));
}

TEST(OperatorFaults, Integers) {
  EXPECT_THAT(Known("BitShift", {}, {{3}, {3}}, DataType::kInt8), HasSubstr("BitShift"));
  EXPECT_THAT(Known("ReduceMax", {}, {{3}}, DataType::kInt32), HasSubstr("f32"));
  EXPECT_EQ(Known("ReduceMax", {}), "");
}

TEST(OperatorFaults, NormsOverNoAxes) {
  EXPECT_THAT(Known("ReduceL2", {{"noop_with_empty_axes", int64_t{1}}}), HasSubstr("no axes"));
  EXPECT_EQ(Known("ReduceL2", {}), "");
  EXPECT_EQ(Known("ReduceL2", {{"noop_with_empty_axes", int64_t{1}}}, {{2, 4}, {1}}), "");
}

TEST(OperatorFaults, RepetitionByComputedNumbers) {
  EXPECT_THAT(Known("Tile", {}, {{2, 3, 4, 5}, {4}}), HasSubstr("Tile"));
  EXPECT_EQ(Known("Tile", {}, {{2, 3, 4}, {3}}), "");
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, Shape{2, 3, 4, 5});
  b.ConstantValues<int64_t>("repeats", DataType::kInt64, {4}, {2, 2, 2, 2});
  b.Node("Tile", {"x", "repeats"}, {"y"}).Output("y");
  EXPECT_EQ(Known(b.graph()), "");
}

TEST(OperatorFaults, FourierTransformsBeforeOpset20) {
  GraphBuilder b;
  b.graph().opsets = {{"", 19}};
  b.Input("x").Node("DFT", {"x"}, {"y"}).Output("y");
  EXPECT_THAT(Known(b.graph()), HasSubstr("opset 20"));
  b.graph().opsets = {{"", 20}};
  EXPECT_EQ(Known(b.graph()), "");
}

TEST(OperatorFaults, QuantizationWithComputedScale) {
  GraphBuilder b;
  b.Input("x").Input("s", DataType::kFloat32, Shape{});
  b.Result("q", DataType::kUint8);
  b.Node("QuantizeLinear", {"x", "s"}, {"q"}).Output("q");
  EXPECT_EQ(Known(b.graph()), "");
  GraphBuilder computed;
  computed.Input("x").Input("s", DataType::kFloat32, Shape{}).Result("q", DataType::kUint8);
  computed.Node("Abs", {"s"}, {"t"}).Node("QuantizeLinear", {"x", "t"}, {"q"}).Output("q");
  const Graph& graph = computed.graph();
  EXPECT_THAT(OperatorFault(graph, GraphIndex(graph), graph.nodes.back()).value_or(""),
              HasSubstr("computed scale"));
  EXPECT_THAT(Known("DynamicQuantizeLinear", {}), HasSubstr("DynamicQuantizeLinear"));
}

TEST(OperatorFaults, RoundingToHalf) {
  const auto known = [](const std::string& reader) {
    GraphBuilder b;
    b.Input("x").Result("h", DataType::kFloat16).Result("y", DataType::kFloat32);
    b.Node("Cast", {"x"}, {"h"}).Node(reader, {"h"}, {"y"}).Output("y");
    return Known(b.graph());
  };
  EXPECT_THAT(known("Cast"), HasSubstr("and back"));
  EXPECT_EQ(known("Relu"), "") << "f16 may be computed in f32";
}

}  // namespace
}  // namespace tandem

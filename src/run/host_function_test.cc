#include "run/host_function.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

constexpr DataType kI64 = DataType::kInt64;

template <typename T>
Tensor Make(DataType type, const Shape& shape, const std::vector<T>& values) {
  Tensor tensor = AllocateTensor(type, shape);
  std::copy(values.begin(), values.end(), reinterpret_cast<T*>(tensor.data));
  return tensor;
}

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  const auto* first = reinterpret_cast<const T*>(tensor.data);
  return {first, first + ElementCount(tensor.shape)};
}

// Runs the builder's graph on one input and returns its first output.
Tensor RunOn(GraphBuilder& b, const Tensor& input) {
  const auto request = MakeHostFunction(b.graph())->NewRequest();
  request->SetInput(0, input);
  request->Run();
  return request->Output(0);
}

TEST(HostFunction, CountsInSixtyFourBits) {
  GraphBuilder b;
  b.Input("x", kI64, Shape{2}).ConstantValues<int64_t>("five", kI64, {1}, {5});
  b.Node("Add", {"x", "five"}, {"y"}).Output("y");
  const Tensor y = RunOn(b, Make<int64_t>(kI64, {2}, {3'000'000'000, INT64_MAX}));
  EXPECT_EQ(Values<int64_t>(y), (std::vector<int64_t>{3'000'000'005, INT64_MIN + 4}));
}

TEST(HostFunction, MeasuresItsNodesWhenAsked) {
  GraphBuilder b;
  b.Input("x", kI64, Shape{2}).Node("Add", {"x", "x"}, {"y"}).Node("Mul", {"y", "y"}, {"z"});
  b.Output("z");
  const auto request = MakeHostFunction(b.graph())->NewRequest();
  const Tensor x = Make<int64_t>(kI64, {2}, {1, 2});
  request->SetInput(0, x);
  OpTimes times;
  request->Run(&times);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].op->name, "Add_0");
  EXPECT_EQ(times[1].op->type, "Mul");
  EXPECT_EQ(times[1].shape, (Shape{2}));
}

TEST(HostFunction, CastsAsOnnxRuntimeDoes) {
  const Tensor x = Make<int64_t>(kI64, {3}, {0, 3'000'000'000, -7});
  const auto cast_to = [&](DataType type) {
    GraphBuilder b;
    b.Input("x", kI64, Shape{3}).Result("y", type, Shape{3}).Node("Cast", {"x"}, {"y"}).Output("y");
    return RunOn(b, x);
  };
  EXPECT_EQ(Values<float>(cast_to(DataType::kFloat32)), (std::vector<float>{0, 3e9F, -7}));
  EXPECT_EQ(Values<uint8_t>(cast_to(DataType::kBool)), (std::vector<uint8_t>{0, 1, 1}));
  EXPECT_EQ(Values<int32_t>(cast_to(DataType::kInt32)), (std::vector<int32_t>{0, -1294967296, -7}));
}

TEST(HostFunction, ComparesWithBroadcasting) {
  GraphBuilder b;
  b.Input("x", kI64, Shape{2, 1}).ConstantValues<int64_t>("c", kI64, {3}, {0, 1, 2});
  b.Result("y", DataType::kBool, Shape{2, 3}).Node("LessOrEqual", {"c", "x"}, {"y"}).Output("y");
  const Tensor y = RunOn(b, Make<int64_t>(kI64, {2, 1}, {0, 1}));
  EXPECT_EQ(y.shape, (Shape{2, 3}));
  EXPECT_EQ(Values<uint8_t>(y), (std::vector<uint8_t>{1, 0, 0, 1, 1, 0}));
}

TEST(HostFunction, SumsAMaskIntoALength) {
  GraphBuilder b;
  b.Input("mask", kI64, Shape{2, -1}).ConstantValues<int64_t>("axis", kI64, {1}, {1});
  b.ConstantValues<int64_t>("one", kI64, {}, {1});
  b.Result("sum", kI64, Shape{2}).Result("last", DataType::kInt32, Shape{2});
  b.Node("ReduceSum", {"mask", "axis"}, {"sum"}, {{"keepdims", int64_t{0}}});
  b.Node("Sub", {"sum", "one"}, {"less"}).Node("Cast", {"less"}, {"last"}).Output("last");
  const Tensor last = RunOn(b, Make<int64_t>(kI64, {2, 3}, {1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(Values<int32_t>(last), (std::vector<int32_t>{2, 0}));
}

TEST(HostFunction, ReshapesAndRanges) {
  GraphBuilder b;
  b.Input("n", kI64, Shape{1}).ConstantValues<int64_t>("zero", kI64, {}, {0});
  b.ConstantValues<int64_t>("two", kI64, {}, {2})
      .ConstantValues<int64_t>("axes", kI64, {2}, {0, -1});
  b.Result("scalar", kI64, Shape{}).Result("range", kI64, Shape{-1});
  b.Result("y", kI64, Shape{1, -1, 1});
  b.Node("Squeeze", {"n"}, {"scalar"}).Node("Range", {"zero", "scalar", "two"}, {"range"});
  b.Node("Unsqueeze", {"range", "axes"}, {"y"}).Output("y");
  const Tensor y = RunOn(b, Make<int64_t>(kI64, {1}, {5}));
  EXPECT_EQ(y.shape, (Shape{1, 3, 1}));
  EXPECT_EQ(Values<int64_t>(y), (std::vector<int64_t>{0, 2, 4}));
}

TEST(HostFunction, WritesWhereItIsTold) {
  GraphBuilder b;
  b.Input("x", kI64, Shape{2}).Node("Mul", {"x", "x"}, {"y"}).Output("y");
  const auto request = MakeHostFunction(b.graph())->NewRequest();
  const Tensor out = AllocateTensor(kI64, {2});
  request->SetInput(0, Make<int64_t>(kI64, {2}, {3, -4}));
  request->SetOutput(0, out);
  request->Run();
  EXPECT_EQ(Values<int64_t>(out), (std::vector<int64_t>{9, 16}));
}

TEST(HostFunction, ShapesThatDoNotBroadcastAreNamed) {
  GraphBuilder b;
  b.Input("x", kI64, Shape{-1}).ConstantValues<int64_t>("c", kI64, {3}, {0, 1, 2});
  b.Node("Add", {"x", "c"}, {"y"}).Output("y");
  EXPECT_TANDEM_ERROR(RunOn(b, Make<int64_t>(kI64, {2}, {0, 1})), ErrorCode::kInvalidArgument,
                      "Add", "[2] and [3]");
}

}  // namespace
}  // namespace tandem

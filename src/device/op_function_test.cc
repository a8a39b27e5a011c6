#include "device/op_function.h"

#include <gtest/gtest.h>

#include <cmath>
#include <openvino/op/parameter.hpp>
#include <openvino/op/relu.hpp>
#include <openvino/op/result.hpp>
#include <random>
#include <thread>

#include "device/ops/rms_norm.h"
#include "device/ops/shared_matmul.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_function.h"
#include "tests/support/random_matrix.h"

namespace tandem {
namespace {

constexpr int64_t kSize = 48;

// A matrix of `k` inputs with its packed form.
struct Weight {
  RandomMatrix source;
  WeightHandle handle;

  explicit Weight(const MatrixSpec& spec, unsigned seed) : source(spec, seed) {
    WeightForm form;
    form.packed = PackedMatrix::Pack(source.source(), Serial);
    handle = std::make_shared<const WeightSlot>(std::move(form));
  }

  double Product(const float* x, uint64_t n) const {
    double sum = 0;
    for (uint64_t k = 0; k < source.source().k; ++k) {
      sum += double{x[k]} * double{source.source().Value(n, k)};
    }
    return sum;
  }
};

Tensor Random(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Tensor tensor = AllocateTensor(DataType::kFloat32, shape);
  for (uint64_t i = 0; i < ElementCount(shape); ++i) Floats(tensor)[i] = normal(random);
  return tensor;
}

ov::Tensor View(const Tensor& tensor) {
  return {ov::element::f32, ov::Shape(tensor.shape.begin(), tensor.shape.end()), tensor.data};
}

// A SharedMatMul of x [2, 3, 64] with weights and addends.
struct Products {
  std::vector<MatrixSpec> specs;
  std::vector<std::pair<int64_t, Shape>> addends;  // to which product, of which shape
  std::string gate;
  bool int8 = false;
  bool normalizes = false;

  static constexpr float kEpsilon = 0.01F;

  // The results, after a comparison with sums in f64.
  void Check(double tolerance) const {
    const Tensor x = Random({2, 3, 64}, 5);
    std::vector<std::unique_ptr<Weight>> weights;
    ov::Tensor slots(ov::element::i32, {specs.size()});
    std::vector<int64_t> more_n;
    for (size_t i = 0; i < specs.size(); ++i) {
      weights.push_back(std::make_unique<Weight>(specs[i], static_cast<unsigned>(i) + 1));
      slots.data<int32_t>()[i] = weights.back()->handle->number();
      if (i > 0) more_n.push_back(static_cast<int64_t>(specs[i].n));
    }
    ov::TensorVector inputs{View(x)};
    MatMulSettings settings{.more_n = more_n,
                            .int8 = int8,
                            .normalizes = normalizes,
                            .epsilon = kEpsilon,
                            .addends = {},
                            .gate = gate};
    const Tensor norm_weight = Random({64}, 6);
    if (normalizes) inputs.push_back(View(norm_weight));
    std::vector<Tensor> added;
    for (const auto& [product, shape] : addends) {
      settings.addends.push_back(product);
      added.push_back(Random(shape, 50 + static_cast<unsigned>(added.size())));
      inputs.push_back(View(added.back()));
    }
    inputs.push_back(slots);
    ov::OutputVector parameters;
    for (const ov::Tensor& tensor : inputs) {
      parameters.push_back(
          std::make_shared<ov::op::v0::Parameter>(tensor.get_element_type(), tensor.get_shape()));
    }
    const auto op = std::make_shared<SharedMatMul>(parameters, 0, static_cast<int64_t>(specs[0].n),
                                                   64, settings);
    ov::TensorVector outputs(op->get_output_size());
    for (ov::Tensor& output : outputs) output = ov::Tensor(ov::element::f32, {0});
    op->evaluate(outputs, inputs);

    std::vector<float> rows(Floats(x), Floats(x) + ElementCount(x.shape));
    if (normalizes) Normalize(rows, Floats(norm_weight));
    if (specs.size() == 3 && !gate.empty()) {
      std::vector<float> gated;
      const ov::Shape shape{2, 3, specs[0].n};
      for (size_t at = 0; at < ov::shape_size(shape); ++at) {
        gated.push_back(static_cast<float>(Gated(weights, at, shape, rows, added)));
      }
      rows = std::move(gated);
    }
    const size_t first = specs.size() - outputs.size();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ov::Shape& shape = outputs[i].get_shape();
      const size_t product = gate.empty() || specs.size() > 2 ? first + i : 0;
      ASSERT_EQ(op->get_output_partial_shape(i), ov::PartialShape(shape));
      ASSERT_EQ(shape.back(), specs[product].n);
      double error = 0;
      double size = 0;
      for (size_t at = 0; at < outputs[i].get_size(); ++at) {
        const double expected = !gate.empty() && specs.size() == 2
                                    ? Gated(weights, at, shape, rows, added)
                                    : Value(*weights[product], product, at, shape, rows, added);
        error += std::pow(outputs[i].data<float>()[at] - expected, 2);
        size += std::pow(expected, 2);
      }
      EXPECT_LT(std::sqrt(error / size), tolerance) << "product " << product;
    }
  }

  static void Normalize(std::vector<float>& rows, const float* weight) {
    for (size_t row = 0; row < rows.size(); row += 64) {
      double squares = 0;
      for (size_t i = 0; i < 64; ++i) squares += double{rows[row + i]} * rows[row + i];
      const double root = std::sqrt(squares / 64 + kEpsilon);
      for (size_t i = 0; i < 64; ++i) {
        rows[row + i] = static_cast<float>(rows[row + i] / root * weight[i]);
      }
    }
  }

  double Gated(const std::vector<std::unique_ptr<Weight>>& weights, size_t at,
               const ov::Shape& shape, const std::vector<float>& rows,
               const std::vector<Tensor>& added) const {
    return Activated(Value(*weights[0], 0, at, shape, rows, added)) *
           Value(*weights[1], 1, at, shape, rows, added);
  }

  double Activated(double x) const {
    if (gate == "silu") return x / (1 + std::exp(-x));
    if (gate == "gelu") return x * std::erfc(-x / std::sqrt(2)) / 2;
    return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3)))) / 2;
  }

  // Element `at` of `shape` of a product and what is added to it.
  double Value(const Weight& weight, size_t product, size_t at, const ov::Shape& shape,
               const std::vector<float>& rows, const std::vector<Tensor>& added) const {
    const size_t n = shape.back();
    double value = weight.Product(rows.data() + at / n % 6 * (rows.size() / 6), at % n);
    for (size_t i = 0; i < addends.size(); ++i) {
      if (addends[i].first != static_cast<int64_t>(product)) continue;
      // Axes from the end; those of size 1 repeat.
      const Shape& own = addends[i].second;
      size_t rest = at;
      size_t offset = 0;
      size_t stride = 1;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const size_t index = rest % shape[shape.size() - 1 - axis];
        rest /= shape[shape.size() - 1 - axis];
        if (axis >= own.size()) continue;
        const auto size = static_cast<size_t>(own[own.size() - 1 - axis]);
        if (size > 1) offset += index * stride;
        stride *= size;
      }
      value += Floats(added[i])[offset];
    }
    return value;
  }
};

const MatrixSpec kFloat{.n = 40, .k = 64};
const MatrixSpec kWide{.n = 72, .k = 64, .order = MatrixOrder::kOutputsFirst};
const MatrixSpec kNibbles{
    .n = 40, .k = 64, .order = MatrixOrder::kOutputsFirst, .type = DataType::kUint4};
const MatrixSpec kBytes{
    .n = 17, .k = 64, .order = MatrixOrder::kOutputsFirst, .type = DataType::kInt8};
const MatrixSpec kLongBlocks{
    .n = 24, .k = 64, .order = MatrixOrder::kOutputsFirst, .type = DataType::kInt4, .block_k = 64};

TEST(SharedMatMulOp, HasSeveralProducts) {
  Products{.specs = {kFloat}}.Check(1e-5);
  Products{.specs = {kFloat, kWide, {.n = 1, .k = 64}}}.Check(1e-5);
  Products{.specs = {kNibbles, kFloat, kBytes, kLongBlocks}}.Check(1e-5);
}

TEST(SharedMatMulOp, QuantizesForEachItsOwnWay) {
  Products{.specs = {kNibbles, kBytes, kLongBlocks, kNibbles}, .int8 = true}.Check(2e-2);
  Products{.specs = {kLongBlocks, kFloat, kNibbles, kBytes}, .int8 = true}.Check(2e-2);
  Products{.specs = {kFloat, kWide}, .int8 = true}.Check(1e-5);
}

TEST(SharedMatMulOp, AddsWhatRepeatsOverTheProduct) {
  for (const Shape& shape : {Shape{40}, Shape{2, 3, 40}, Shape{3, 40}, Shape{2, 1, 40},
                             Shape{2, 3, 1}, Shape{1}, Shape{}}) {
    Products{.specs = {kFloat}, .addends = {{0, shape}}}.Check(1e-5);
  }
  Products{.specs = {kNibbles, kWide, kFloat}, .addends = {{2, {40}}, {1, {2, 3, 72}}, {2, {3, 1}}}}
      .Check(1e-5);
}

TEST(SharedMatMulOp, RepeatsOverWhatIsLarger) {
  Products{.specs = {kFloat}, .addends = {{0, {4, 2, 3, 40}}}}.Check(1e-5);
  Products{.specs = {kFloat, kWide}, .addends = {{1, {5, 1, 1, 1}}, {1, {72}}, {0, {40}}}}.Check(
      1e-5);
}

TEST(SharedMatMulOp, Gates) {
  for (const char* gate : {"silu", "gelu", "gelu_tanh"}) {
    Products{.specs = {kFloat, kFloat}, .gate = gate}.Check(1e-5);
  }
  Products{.specs = {kNibbles, kFloat}, .addends = {{0, {40}}, {1, {40}}}, .gate = "silu"}.Check(
      1e-5);
  Products{.specs = {kNibbles, kNibbles}, .gate = "silu", .int8 = true}.Check(3e-2);
}

TEST(SharedMatMulOp, NormalizesFirst) {
  Products{.specs = {kFloat, kWide}, .normalizes = true}.Check(1e-5);
  Products{.specs = {kFloat}, .addends = {{0, {2, 3, 40}}}, .normalizes = true}.Check(1e-5);
  Products{.specs = {kNibbles, kBytes}, .int8 = true, .normalizes = true}.Check(2e-2);
  Products{.specs = {kNibbles, kFloat}, .int8 = true, .normalizes = true}.Check(2e-2);
}

TEST(SharedMatMulOp, MultipliesWhatIsGated) {
  constexpr MatrixSpec kBehind{.n = 24, .k = 40};
  constexpr MatrixSpec kCodesBehind{.n = 24,
                                    .k = 40,
                                    .order = MatrixOrder::kOutputsFirst,
                                    .type = DataType::kUint4,
                                    .block_k = 8};
  Products{.specs = {kFloat, kFloat, kBehind}, .gate = "gelu"}.Check(1e-5);
  Products{.specs = {kFloat, kFloat, kBehind},
           .addends = {{0, {40}}, {1, {40}}, {2, {24}}, {2, {2, 3, 24}}},
           .gate = "silu",
           .normalizes = true}
      .Check(1e-5);
  Products{.specs = {kNibbles, kNibbles, kCodesBehind}, .gate = "silu"}.Check(1e-5);
  for (const MatrixSpec& last : {kCodesBehind, kBehind}) {
    Products{.specs = {kNibbles, kNibbles, last},
             .addends = {{2, {2, 3, 24}}},
             .gate = "silu",
             .int8 = true,
             .normalizes = true}
        .Check(4e-2);
  }
  // What is added may have more rows.
  Products{.specs = {kFloat, kFloat, kBehind}, .addends = {{2, {4, 2, 3, 24}}}, .gate = "silu"}
      .Check(1e-5);
}

TEST(SharedMatMulOp, TellsTheBytesOfItsWeights) {
  const Weight first({.n = 40, .k = 64}, 1);
  const Weight second({.n = 24, .k = 64}, 2);
  ov::Tensor slots(ov::element::i32, {2});
  slots.data<int32_t>()[0] = first.handle->number();
  slots.data<int32_t>()[1] = second.handle->number();
  const SharedMatMul op(
      {std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::Shape{1, 64}),
       std::make_shared<ov::op::v0::Parameter>(ov::element::i32, ov::Shape{2})},
      0, 40, 64, {.more_n = {24}});
  EXPECT_EQ(op.WeightBytes(slots), first.handle->form().bytes() + second.handle->form().bytes());
}

TEST(RmsNormOp, DividesByTheRoot) {
  for (const Shape& shape : {Shape{2, 3, 48}, Shape{700, 48}, Shape{7}, Shape{0, 5}}) {
    const Tensor x = Random(shape, 1);
    const Tensor weight = Random({shape.back()}, 2);
    const RmsNorm op(
        {std::make_shared<ov::op::v0::Parameter>(ov::element::f32, View(x).get_shape()),
         std::make_shared<ov::op::v0::Parameter>(ov::element::f32, View(weight).get_shape())},
        0.25F);
    ov::TensorVector outputs{ov::Tensor(ov::element::f32, {0})};
    op.evaluate(outputs, {View(x), View(weight)});
    ASSERT_EQ(outputs[0].get_shape(), View(x).get_shape());
    const auto d = static_cast<uint64_t>(shape.back());
    for (uint64_t at = 0; at < outputs[0].get_size(); ++at) {
      double squares = 0;
      for (uint64_t i = 0; i < d; ++i) squares += std::pow(Floats(x)[at / d * d + i], 2);
      const double root = std::sqrt(squares / static_cast<double>(d) + 0.25);
      ASSERT_NEAR(outputs[0].data<float>()[at], Floats(x)[at] / root * Floats(weight)[at % d],
                  1e-5);
    }
  }
}

// Norms one after the other, x -> a -> b -> c, of which b and c are results; and one of x that
// nobody reads. All but the results share places.
class OpFunctionTest : public ::testing::Test {
 protected:
  OpFunctionTest() {
    const auto x =
        std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::PartialShape{-1, kSize});
    const auto weight = std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::Shape{kSize});
    x->set_friendly_name("x");
    weight->set_friendly_name("weight");
    const auto norm = [&](const ov::Output<ov::Node>& input) {
      return std::make_shared<RmsNorm>(ov::OutputVector{input, weight}, 0.0F);
    };
    std::shared_ptr<ov::Node> value = x;
    for (int i = 0; i < 5; ++i) value = norm(value);
    const auto middle = norm(value);
    const auto last = norm(norm(middle));
    model_ =
        std::make_shared<ov::Model>(ov::ResultVector{std::make_shared<ov::op::v0::Result>(middle),
                                                     std::make_shared<ov::op::v0::Result>(last)},
                                    ov::ParameterVector{x, weight});
    source_.inputs = {"weight", "x", "unused"};
    source_.outputs = {"middle", "last"};
    function_ = MakeOpFunction(model_, source_, 2);
  }

  // With weights of `w`, a norm is w times the sign of a row of equal numbers.
  static void Check(Request& request, int64_t rows, float w) {
    const Tensor x = AllocateTensor(DataType::kFloat32, {rows, kSize});
    const Tensor weight = AllocateTensor(DataType::kFloat32, {kSize});
    std::fill_n(Floats(weight), kSize, w);
    for (int64_t i = 0; i < rows * kSize; ++i) {
      Floats(x)[i] = static_cast<float>(i / kSize % 2 == 0 ? 3 : -3);
    }
    request.SetInput(0, weight);
    request.SetInput(1, x);
    request.Run();
    for (size_t output : {0, 1}) {
      const Tensor y = request.Output(output);
      ASSERT_EQ(y.shape, (Shape{rows, kSize}));
      for (int64_t i = 0; i < rows * kSize; ++i) {
        ASSERT_NEAR(Floats(y)[i], i / kSize % 2 == 0 ? w : -w, 1e-4) << "output " << output;
      }
    }
  }

  std::shared_ptr<ov::Model> model_;
  FunctionSource source_;
  std::shared_ptr<Function> function_;
};

TEST_F(OpFunctionTest, KnowsItsPorts) {
  ASSERT_NE(function_, nullptr);
  EXPECT_EQ(function_->inputs()[1].name, "x");
  EXPECT_EQ(function_->inputs()[1].shape, (Shape{-1, kSize}));
  EXPECT_EQ(function_->inputs()[2].type, DataType::kUndefined) << "nobody reads it";
  EXPECT_EQ(function_->outputs()[0].name, "middle");
  EXPECT_EQ(function_->threads(), 2);
}

TEST_F(OpFunctionTest, ShapesChangeFromRunToRun) {
  const auto request = function_->NewRequest();
  float weight = 0.5F;
  for (int64_t rows : {1, 7, 2, 300, 0, 5}) Check(*request, rows, weight += 0.5F);
}

TEST_F(OpFunctionTest, RequestsRunAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([this, t] {
      const auto request = function_->NewRequest();
      for (int i = 0; i < 100; ++i)
        Check(*request, 1 + (i + t) % 9, static_cast<float>(t * 10 + 1));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(OpFunctionTest, MeasuresEachOperatorWhenAsked) {
  const auto request = function_->NewRequest();
  Check(*request, 3, 1);  // the inputs stay
  OpTimes times;
  for (size_t runs : {1, 2}) {
    request->Run(&times);
    ASSERT_EQ(times.size(), runs * 8);
  }
  request->Run();
  ASSERT_EQ(times.size(), 16u);
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(times[i].op->type, "RmsNorm");
    EXPECT_EQ(times[i].op->executor, kOnTandem);
    EXPECT_EQ(times[i].shape, (Shape{3, kSize}));
    EXPECT_EQ(times[i].weight_bytes, 0u);
    EXPECT_EQ(times[i].op, times[i % 8].op) << "runs share what they tell of an operator";
    if (i == 0) continue;
    const Interval& before = times[i - 1].time;
    EXPECT_GE(times[i].time.start_ns, before.start_ns + before.duration_ns);
  }
}

TEST_F(OpFunctionTest, ATensorThatDoesNotFitIsNamed) {
  EXPECT_TANDEM_ERROR(function_->NewRequest()->SetInput(1, Random({2, 5}, 1)),
                      ErrorCode::kInvalidArgument, "'x'", "found f32[2,5]");
}

TEST_F(OpFunctionTest, OtherOperatorsAreOpenVinos) {
  const auto x = std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::Shape{2, kSize});
  const auto relu = std::make_shared<ov::op::v0::Relu>(x);
  EXPECT_FALSE(HasOwnOperatorsOnly(ov::Model(ov::OutputVector{relu}, ov::ParameterVector{x})));
  EXPECT_FALSE(HasOwnOperatorsOnly(ov::Model(ov::OutputVector{x}, ov::ParameterVector{x})))
      << "nothing writes the result";
  EXPECT_TRUE(HasOwnOperatorsOnly(*model_));
}

}  // namespace
}  // namespace tandem

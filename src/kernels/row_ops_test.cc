#include "kernels/row_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/tested_kernels.h"

namespace tandem {
namespace {

constexpr float kUntouched = -77;

class RowOpsTest : public ::testing::TestWithParam<TestedKernels> {
 protected:
  std::vector<float> Random(size_t count, float width) {
    std::normal_distribution<float> normal(0, width);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }

  const Kernels& kernels_ = *GetParam().kernels;
  std::mt19937 random_;
};

TEST_P(RowOpsTest, RmsNormOfAnySize) {
  for (uint64_t size : {1, 15, 16, 17, 64, 576, 1001}) {
    const auto x = Random(size, 3);
    const auto weight = Random(size, 1);
    std::vector<float> y(size + 1, kUntouched);
    kernels_.rms_norm(x.data(), weight.data(), 1e-5F, size, y.data());
    double squares = 0;
    for (float value : x) squares += double{value} * value;
    const double root = std::sqrt(squares / static_cast<double>(size) + 1e-5);
    for (uint64_t i = 0; i < size; ++i) {
      const double expected = x[i] / root * weight[i];
      ASSERT_NEAR(y[i], expected, 1e-6 + 1e-6 * std::abs(expected)) << size << " at " << i;
    }
    ASSERT_EQ(y[size], kUntouched);
  }
}

TEST_P(RowOpsTest, RmsNormOfZerosIsZeroAndMayBeInPlace) {
  std::vector<float> x(20);
  const std::vector<float> weight(20, 2);
  kernels_.rms_norm(x.data(), weight.data(), 1e-6F, 20, x.data());
  EXPECT_EQ(x, std::vector<float>(20));
}

double Activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGelu:
      return x * std::erfc(-x / std::sqrt(2)) / 2;
    case Activation::kGeluTanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return NAN;
}

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh};

TEST_P(RowOpsTest, GatesOfAnySize) {
  for (Activation activation : kActivations) {
    for (uint64_t size : {1, 16, 31, 400}) {
      for (float width : {0.1F, 2.0F, 20.0F}) {
        auto gate = Random(size + 1, width);
        const auto before = gate;
        const auto up = Random(size, 1);
        kernels_.gate(activation, gate.data(), up.data(), size);
        // The approximation of erf is absolute, and e^x takes the error of x over.
        const double absolute = activation == Activation::kGelu ? 2e-7 : 1e-30;
        for (uint64_t i = 0; i < size; ++i) {
          const double expected = Activated(activation, before[i]) * up[i];
          const double bound = 1e-5 * std::abs(expected) + absolute * std::abs(before[i] * up[i]);
          ASSERT_NEAR(gate[i], expected, bound) << before[i] << " * " << up[i];
        }
        ASSERT_EQ(gate[size], before[size]);
      }
    }
  }
}

TEST_P(RowOpsTest, GatesFarOut) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (Activation activation : kActivations) {
    std::vector<float> gate{-1000, 1000, -89, 88.5F, kInfinity, NAN, -3e38F, 3e38F};
    const std::vector<float> up(gate.size(), 1);
    kernels_.gate(activation, gate.data(), up.data(), gate.size());
    EXPECT_NEAR(gate[0], 0, 1e-30);
    EXPECT_EQ(gate[1], 1000);
    EXPECT_NEAR(gate[2], 0, 1e-30);
    EXPECT_EQ(gate[3], 88.5F);
    EXPECT_EQ(gate[4], kInfinity);
    EXPECT_TRUE(std::isnan(gate[5]));
    EXPECT_LE(std::abs(gate[6]), 6) << "as little as e^-87 leaves of it";
    EXPECT_EQ(gate[7], 3e38F);
  }
}

TEST_P(RowOpsTest, AddOfAnySize) {
  for (uint64_t size : {1, 16, 31, 400}) {
    auto y = Random(size + 1, 20);
    const auto before = y;
    const auto x = Random(size, 1);
    kernels_.add(x.data(), size, y.data());
    for (uint64_t i = 0; i < size; ++i) ASSERT_EQ(y[i], before[i] + x[i]);
    ASSERT_EQ(y[size], before[size]);
  }
}

TEST_P(RowOpsTest, RotateAnyNumberOfPairs) {
  for (uint64_t pairs : {1, 16, 20, 48}) {
    for (uint64_t second : {uint64_t{0}, pairs}) {
      const auto x = Random(2 * pairs, 1);
      const auto cos = Random(2 * pairs, 1);
      const auto sin = Random(2 * pairs, 1);
      std::vector<float> out(2 * pairs + 1, 7);
      kernels_.rotate(x.data(), cos.data(), sin.data(), second, pairs, out.data());
      for (uint64_t i = 0; i < pairs; ++i) {
        const double a = x[i];
        const double b = x[pairs + i];
        ASSERT_NEAR(out[i], a * cos[i] - b * sin[i], 1e-6);
        ASSERT_NEAR(out[pairs + i], b * cos[second + i] + a * sin[second + i], 1e-6);
      }
      ASSERT_EQ(out[2 * pairs], 7);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, RowOpsTest, ::testing::ValuesIn(AllKernels()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace tandem

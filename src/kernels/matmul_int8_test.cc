#include "kernels/matmul_int8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/kernels.h"
#include "tests/support/random_matrix.h"

namespace tandem {
namespace {

class MatMulInt8Test : public ::testing::TestWithParam<Isa> {
 protected:
  static std::vector<float> Random(uint64_t count) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<float> x(count);
    for (float& value : x) value = normal(random);
    return x;
  }

  // y = x W with the activations that the codes stand for, in f64.
  static void ExpectExact(const MatrixSpec& spec, uint64_t m) {
    const RandomMatrix matrix(spec, static_cast<unsigned>(m));
    const PackedMatrix w = PackedMatrix::Pack(matrix.source(), Serial);
    const std::vector<float> x = Random(m * spec.k);
    const Kernels& kernels = KernelsFor(GetParam());
    QuantizedRows rows(w, m);
    kernels.quantize(x.data(), rows, 0, m / 2);
    kernels.quantize(x.data(), rows, m / 2, m);

    constexpr float kUntouched = -12345;
    std::vector<float> y((m + 1) * spec.n, kUntouched);
    const uint64_t half = w.panels() / 2;
    kernels.matmul_int8(w, rows, y.data(), 0, half);
    kernels.matmul_int8(w, rows, y.data(), half, w.panels());
    for (uint64_t row = 0; row < m; ++row) {
      std::vector<double> codes(spec.k);
      for (uint64_t k = 0; k < spec.k; ++k) {
        const float scale = rows.scales(k / rows.block())[row];
        codes[k] = static_cast<double>(scale) * rows.codes(row)[k];
        ASSERT_LE(std::abs(codes[k] - x[row * spec.k + k]), 0.501 * scale)
            << Describe(spec) << " row " << row << " input " << k;
      }
      for (uint64_t n = 0; n < spec.n; ++n) {
        double expected = 0;
        double magnitude = 0;
        for (uint64_t k = 0; k < spec.k; ++k) {
          const double value = codes[k] * matrix.source().Value(n, k);
          expected += value;
          // A zero point is subtracted after the sum.
          magnitude += std::abs(value) + std::abs(codes[k] * matrix.source().Scale(n, k)) * 256;
        }
        ASSERT_NEAR(y[row * spec.n + n], expected, 1e-6 * magnitude + 1e-12)
            << Describe(spec) << " m " << m << " row " << row << " output " << n;
      }
    }
    for (uint64_t i = m * spec.n; i < y.size(); ++i) ASSERT_EQ(y[i], kUntouched);
  }
};

constexpr DataType kTypes[] = {DataType::kInt8, DataType::kUint8, DataType::kInt4,
                               DataType::kUint4};

TEST_P(MatMulInt8Test, EveryNumberOfRows) {
  for (DataType type : kTypes) {
    for (uint64_t m = 1; m <= 65; m = m < 18 ? m + 1 : m + 11)
      ExpectExact({.n = 48, .k = 96, .type = type}, m);
  }
}

TEST_P(MatMulInt8Test, TailsOfInputsAndOutputs) {
  for (DataType type : kTypes) {
    for (uint64_t n : {1, 15, 16, 17, 50}) {
      for (uint64_t k : {1, 3, 7, 8, 31, 33, 261}) {
        for (uint64_t m : {1, 3, 20}) ExpectExact({.n = n, .k = k, .type = type, .block_k = 0}, m);
      }
    }
  }
}

TEST_P(MatMulInt8Test, BlocksAndZeroPoints) {
  for (DataType type : kTypes) {
    for (uint64_t block : {8, 16, 24, 32, 64, 128, 256, 0}) {
      for (DataType zero_point : {DataType::kUndefined, type}) {
        ExpectExact(
            {.n = 40, .k = 320, .type = type, .block_k = block, .zero_point_type = zero_point}, 5);
      }
    }
  }
}

// The largest codes and weights, whose products would not fit 16 bits together.
TEST_P(MatMulInt8Test, NothingSaturates) {
  const std::vector<uint8_t> codes(16 * 64, 255);
  const std::vector<float> scales(16, 1);
  MatrixSource source;
  source.n = 16;
  source.k = 64;
  source.order = MatrixOrder::kOutputsFirst;
  source.codes = {DataType::kUint8, AsBytes(codes).data(), 64};
  source.scales = {{DataType::kFloat32, AsBytes(scales).data(), 1}, 1, 64};
  const PackedMatrix w = PackedMatrix::Pack(source, Serial);
  ASSERT_EQ(w.layout(), Layout::kU8);
  const std::vector<float> x(64, -127);
  QuantizedRows rows(w, 1);
  KernelsFor(GetParam()).quantize(x.data(), rows, 0, 1);
  std::vector<float> y(16);
  KernelsFor(GetParam()).matmul_int8(w, rows, y.data(), 0, 1);
  for (float value : y) EXPECT_EQ(value, -127.0F * 255 * 64);
}

TEST_P(MatMulInt8Test, WhatIsNotFiniteGivesNaNInItsRowOnly) {
  const RandomMatrix matrix({.n = 16, .k = 64, .type = DataType::kInt4});
  const PackedMatrix w = PackedMatrix::Pack(matrix.source(), Serial);
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x(2 * 64, 1);
    x[40] = bad;
    QuantizedRows rows(w, 2);
    KernelsFor(GetParam()).quantize(x.data(), rows, 0, 2);
    std::vector<float> y(2 * 16);
    KernelsFor(GetParam()).matmul_int8(w, rows, y.data(), 0, 1);
    for (int n = 0; n < 16; ++n) {
      EXPECT_TRUE(std::isnan(y[n]));
      EXPECT_TRUE(std::isfinite(y[16 + n]));
    }
  }
}

TEST_P(MatMulInt8Test, ZerosStayZeros) {
  const RandomMatrix matrix(
      {.n = 16, .k = 64, .type = DataType::kUint4, .zero_point_type = DataType::kUint4});
  const PackedMatrix w = PackedMatrix::Pack(matrix.source(), Serial);
  const std::vector<float> x(64);
  QuantizedRows rows(w, 1);
  KernelsFor(GetParam()).quantize(x.data(), rows, 0, 1);
  std::vector<float> y(16, 1);
  KernelsFor(GetParam()).matmul_int8(w, rows, y.data(), 0, 1);
  EXPECT_EQ(y, std::vector<float>(16));
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, MatMulInt8Test, ::testing::ValuesIn(SupportedIsas()),
                         [](const auto& param) { return std::string(Name(param.param)); });

}  // namespace
}  // namespace tandem

#include "kernels/matmul_int8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/tested_kernels.h"
#include "tests/support/random_matrix.h"

namespace tandem {
namespace {

class MatMulInt8Test : public ::testing::TestWithParam<TestedKernels> {
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
    const Kernels& kernels = *GetParam().kernels;
    QuantizedRows rows(w, m);
    // Rows and blocks in parts.
    const Rows<const float> whole{x.data(), spec.k};
    const uint64_t blocks = rows.blocks() / 2;
    kernels.quantize(whole, rows, {0, m / 2}, {0, rows.blocks()});
    const Rows<const float> rest = whole.From(m / 2, 0);
    kernels.quantize(rest, rows, {m / 2, m}, {0, blocks});
    kernels.quantize(rest.From(0, blocks * rows.block()), rows, {m / 2, m},
                     {blocks, rows.blocks()});

    // A row for all, or one for each.
    const std::vector<float> added = Random(m * spec.n);
    const Addend addend{added.data(), m % 2 == 0 ? 0 : spec.n};

    // Calls that share the panels and the rows, into a frame that must stay as it is.
    constexpr float kUntouched = -12345;
    std::vector<float> y((m + 1) * spec.n, kUntouched);
    const uint64_t half = w.panels() / 2;
    const uint64_t n = half * kPanelOutputs;
    const Outputs all{y.data(), spec.n};
    kernels.matmul_int8(w, rows, {0, m}, {}, all, {0, half});
    const uint64_t some = m / 3;
    for (const Range part : {Range{0, some}, Range{some, m}}) {
      kernels.matmul_int8(w, rows, part, addend.From(part.first, n), all.From(part.first, n),
                          {half, w.panels()});
    }
    for (uint64_t row = 0; row < m; ++row) {
      std::vector<double> codes(spec.k);
      for (uint64_t k = 0; k < spec.k; ++k) {
        const float scale = rows.scales(k / rows.block())[row];
        codes[k] = static_cast<double>(scale) * rows.codes(row)[k];
        ASSERT_LE(std::abs(codes[k] - x[row * spec.k + k]), 0.501 * scale)
            << Describe(spec) << " row " << row << " input " << k;
      }
      for (uint64_t output = 0; output < spec.n; ++output) {
        double expected = output < n ? 0 : *addend.From(row, output).data;
        double magnitude = std::abs(expected);
        for (uint64_t k = 0; k < spec.k; ++k) {
          const double value = codes[k] * matrix.source().Value(output, k);
          expected += value;
          // A zero point is subtracted after the sum.
          magnitude +=
              std::abs(value) + std::abs(codes[k] * matrix.source().Scale(output, k)) * 256;
        }
        ASSERT_NEAR(y[row * spec.n + output], expected, 1e-6 * magnitude + 1e-12)
            << Describe(spec) << " m " << m << " row " << row << " output " << output;
      }
    }
    for (uint64_t i = m * spec.n; i < y.size(); ++i) ASSERT_EQ(y[i], kUntouched);
  }
};

constexpr DataType kTypes[] = {DataType::kInt8, DataType::kUint8, DataType::kInt4,
                               DataType::kUint4};

TEST_P(MatMulInt8Test, EveryNumberOfRows) {
  for (DataType type : kTypes) {
    for (uint64_t m = 1; m <= 65; ++m) ExpectExact({.n = 33, .k = 96, .type = type}, m);
  }
}

TEST_P(MatMulInt8Test, TailsOfInputsAndOutputs) {
  for (DataType type : kTypes) {
    for (uint64_t n : {1, 15, 16, 17, 50}) {
      for (uint64_t k : {1, 3, 7, 8, 31, 33, 261}) {
        for (uint64_t m : {1, 3, 20, 37})
          ExpectExact({.n = n, .k = k, .type = type, .block_k = 0}, m);
      }
    }
  }
}

TEST_P(MatMulInt8Test, BlocksAndZeroPoints) {
  for (DataType type : kTypes) {
    for (uint64_t block : {4, 8, 16, 24, 32, 64, 128, 256, 0}) {
      if (block == 4 && BitWidth(type) == 4) continue;  // packed as f32
      for (DataType zero_point : {DataType::kUndefined, type}) {
        for (uint64_t m : {5, 23}) {
          ExpectExact(
              {.n = 40, .k = 320, .type = type, .block_k = block, .zero_point_type = zero_point},
              m);
        }
      }
    }
  }
}

// One zero point for all: that of the middle, another, and one that is no integer.
TEST_P(MatMulInt8Test, OneZeroPoint) {
  for (DataType type : kTypes) {
    for (float zero_point : {0.0F, 8.0F, 127.0F, 128.0F, 7.25F}) {
      for (uint64_t m : {5, 23}) {
        ExpectExact({.n = 40, .k = 96, .type = type, .default_zero_point = zero_point}, m);
      }
    }
  }
}

// Sums of integers are exact, and the few operations in f32 are the same: but without a fused
// multiply-add, the bits are.
TEST_P(MatMulInt8Test, GivesTheBitsOfAvx2) {
  const std::vector<Isa> isas = SupportedIsas();
  if (std::find(isas.begin(), isas.end(), Isa::kAvx2) == isas.end()) GTEST_SKIP();
  if (GetParam().kernels == &KernelsFor(Isa::kPortable)) GTEST_SKIP() << "no fused multiply-add";
  for (DataType type : kTypes) {
    for (DataType zero_point : {DataType::kUndefined, type}) {
      for (uint64_t m : {1, 16, 31}) {
        const RandomMatrix matrix({.n = 40, .k = 261, .type = type, .zero_point_type = zero_point});
        const PackedMatrix w = PackedMatrix::Pack(matrix.source(), Serial);
        QuantizedRows rows(w, m);
        const std::vector<float> x = Random(m * 261);
        KernelsFor(Isa::kAvx2).quantize({x.data(), 261}, rows, {0, m}, {0, rows.blocks()});
        std::vector<float> expected(m * 40);
        KernelsFor(Isa::kAvx2)
            .matmul_int8(w, rows, {0, m}, {}, {expected.data(), 40}, {0, w.panels()});
        std::vector<float> found(m * 40);
        GetParam().kernels->matmul_int8(w, rows, {0, m}, {}, {found.data(), 40}, {0, w.panels()});
        EXPECT_EQ(found, expected) << Name(type) << " m " << m;
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
  GetParam().kernels->quantize({x.data(), 64}, rows, {0, 1}, {0, rows.blocks()});
  std::vector<float> y(16);
  GetParam().kernels->matmul_int8(w, rows, {0, rows.rows()}, {}, {y.data(), 16}, {0, 1});
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
    GetParam().kernels->quantize({x.data(), 64}, rows, {0, 2}, {0, rows.blocks()});
    std::vector<float> y(2 * 16);
    GetParam().kernels->matmul_int8(w, rows, {0, rows.rows()}, {}, {y.data(), 16}, {0, 1});
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
  GetParam().kernels->quantize({x.data(), 64}, rows, {0, 1}, {0, rows.blocks()});
  std::vector<float> y(16, 1);
  GetParam().kernels->matmul_int8(w, rows, {0, rows.rows()}, {}, {y.data(), 16}, {0, 1});
  EXPECT_EQ(y, std::vector<float>(16));
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, MatMulInt8Test, ::testing::ValuesIn(AllKernels()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace tandem

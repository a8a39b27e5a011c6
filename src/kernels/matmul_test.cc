#include <gtest/gtest.h>

#include <cmath>

#include "kernels/tested_kernels.h"
#include "tests/support/random_matrix.h"

namespace tandem {
namespace {

class MatMulTest : public ::testing::TestWithParam<TestedKernels> {
 protected:
  // y = x W in f64, from the elements of the source: dequantize, then multiply.
  static std::vector<double> Reference(const MatrixSource& w, const std::vector<float>& x,
                                       uint64_t m, std::vector<double>& magnitude) {
    std::vector<double> y(m * w.n);
    magnitude.assign(m * w.n, 0);
    for (uint64_t n = 0; n < w.n; ++n) {
      for (uint64_t k = 0; k < w.k; ++k) {
        const double value = w.Value(n, k);
        for (uint64_t row = 0; row < m; ++row) {
          const double term = x[row * w.k + k] * value;
          y[row * w.n + n] += term;
          magnitude[row * w.n + n] += std::abs(term);
        }
      }
    }
    return y;
  }

  static void ExpectExact(const MatrixSpec& spec, uint64_t m) {
    const RandomMatrix matrix(spec, static_cast<unsigned>(m));
    const PackedMatrix w = PackedMatrix::Pack(matrix.source(), Serial);
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<float> x(m * spec.k);
    for (float& value : x) value = normal(random);

    // A row for all, or one for each.
    std::vector<float> added(m * spec.n);
    for (float& value : added) value = normal(random);
    const Addend addend{added.data(), m % 2 == 0 ? 0 : spec.n};

    // Two calls that share the panels, into a frame that must stay as it is.
    constexpr float kUntouched = -12345;
    std::vector<float> y((m + 1) * spec.n, kUntouched);
    const uint64_t half = w.panels() / 2;
    const uint64_t n = half * kPanelOutputs;
    const Outputs all{y.data(), spec.n};
    const Kernels& kernels = *GetParam().kernels;
    kernels.matmul(w, x.data(), m, {}, all, {0, half});
    kernels.matmul(w, x.data(), m, addend.From(0, n), all.From(0, n), {half, w.panels()});

    std::vector<double> magnitude;
    const std::vector<double> expected = Reference(matrix.source(), x, m, magnitude);
    for (uint64_t i = 0; i < expected.size(); ++i) {
      const uint64_t row = i / spec.n;
      const uint64_t output = i % spec.n;
      const double start = output < n ? 0 : *addend.From(row, output).data;
      ASSERT_NEAR(y[i], start + expected[i], 1e-6 * (std::abs(start) + magnitude[i]) + 1e-12)
          << Describe(spec) << " m " << m << " row " << row << " output " << output;
    }
    for (uint64_t i = expected.size(); i < y.size(); ++i) ASSERT_EQ(y[i], kUntouched);
  }
};

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16,
                               DataType::kInt8,    DataType::kUint8,   DataType::kInt4,
                               DataType::kUint4};

TEST_P(MatMulTest, EveryNumberOfRows) {
  for (DataType type : kTypes) {
    for (uint64_t m = 1; m <= 65; m = m < 18 ? m + 1 : m + 11) {
      ExpectExact({.n = 48, .k = 96, .type = type}, m);
    }
  }
}

TEST_P(MatMulTest, TailsOfInputsAndOutputs) {
  for (DataType type : kTypes) {
    for (uint64_t n : {1, 15, 16, 17, 50}) {
      for (uint64_t k : {1, 3, 7, 8, 31, 33, 261}) {
        for (uint64_t m : {1, 3, 6, 20}) {
          ExpectExact({.n = n, .k = k, .type = type}, m);
        }
      }
    }
  }
}

TEST_P(MatMulTest, MoreInputsThanAChunk) {
  for (DataType type : kTypes) {
    for (uint64_t m : {1, 2, 4, 29}) ExpectExact({.n = 33, .k = 1100, .type = type}, m);
  }
}

TEST_P(MatMulTest, EveryKindOfBlock) {
  for (DataType type : {DataType::kInt8, DataType::kUint8, DataType::kInt4, DataType::kUint4}) {
    for (DataType zero_points : {DataType::kUndefined, type}) {
      for (uint64_t block_k : {0, 1, 8, 16, 64, 128, 256}) {
        for (uint64_t block_n : {0, 1, 3}) {
          for (uint64_t m : {1, 5}) {
            ExpectExact({.n = 20,
                         .k = 300,
                         .type = type,
                         .block_n = block_n,
                         .block_k = block_k,
                         .zero_point_type = zero_points},
                        m);
          }
        }
      }
    }
  }
}

TEST_P(MatMulTest, EveryTypeOfScale) {
  for (DataType scale : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    ExpectExact({.type = DataType::kInt4, .scale_type = scale}, 2);
  }
}

TEST_P(MatMulTest, NoRowsAreNoWork) {
  ExpectExact({.n = 16, .k = 8}, 0);
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, MatMulTest, ::testing::ValuesIn(AllKernels()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace tandem

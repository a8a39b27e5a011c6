#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/strings.h"
#include "kernels/matrix_source.h"

namespace tandem {

// What a random weight matrix looks like. Blocks of 0 inputs or outputs mean all of them.
struct MatrixSpec {
  uint64_t n = 32;
  uint64_t k = 64;
  MatrixOrder order = MatrixOrder::kInputsFirst;
  DataType type = DataType::kFloat32;
  uint64_t block_n = 1;
  uint64_t block_k = 32;
  DataType scale_type = DataType::kFloat32;
  DataType zero_point_type = DataType::kUndefined;  // none
  float default_zero_point = 0;
  uint64_t padding = 0;     // elements after each row of codes
  size_t misalignment = 0;  // bytes before the codes

  bool IsQuantized() const { return !IsFloat(type); }
};

// Random codes, scales and zero points, and the MatrixSource that reads them.
class RandomMatrix {
 public:
  explicit RandomMatrix(const MatrixSpec& spec, unsigned seed = 1) : random_(seed) {
    source_.n = spec.n;
    source_.k = spec.k;
    source_.order = spec.order;
    source_.default_zero_point = spec.default_zero_point;
    source_.codes = Fill(codes_, spec.type, spec.n, spec.k, spec.padding, spec.misalignment);
    if (!spec.IsQuantized()) return;
    const uint64_t block_n = spec.block_n == 0 ? spec.n : spec.block_n;
    const uint64_t block_k = spec.block_k == 0 ? spec.k : spec.block_k;
    const uint64_t rows = CeilDivide(spec.n, block_n);
    const uint64_t columns = CeilDivide(spec.k, block_k);
    source_.scales = {Fill(scales_, spec.scale_type, rows, columns, 0, 0), block_n, block_k};
    if (spec.zero_point_type != DataType::kUndefined) {
      source_.zero_points = {Fill(zero_points_, spec.zero_point_type, rows, columns, 0, 0), block_n,
                             block_k};
    }
  }
  RandomMatrix(const RandomMatrix&) = delete;
  RandomMatrix& operator=(const RandomMatrix&) = delete;

  const MatrixSource& source() const { return source_; }

 private:
  // `outputs` x `inputs` elements in the order of the matrix.
  ElementRows Fill(std::vector<uint8_t>& buffer, DataType type, uint64_t outputs, uint64_t inputs,
                   uint64_t padding, size_t misalignment) {
    const bool outputs_first = source_.order == MatrixOrder::kOutputsFirst;
    const uint64_t rows = outputs_first ? outputs : inputs;
    const uint64_t row_elements = (outputs_first ? inputs : outputs) + padding;
    const uint64_t count = rows * row_elements;
    buffer.assign(misalignment + CeilDivide(count * static_cast<uint64_t>(BitWidth(type)), 8), 0);
    uint8_t* data = buffer.data() + misalignment;
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (uint64_t i = 0; i < count; ++i) {
      const float value = uniform(random_);
      if (type == DataType::kFloat32) {
        std::memcpy(data + i * 4, &value, 4);
      } else if (type == DataType::kFloat16) {
        const auto half = static_cast<_Float16>(value);
        std::memcpy(data + i * 2, &half, 2);
      } else if (type == DataType::kBfloat16) {
        std::memcpy(data + i * 2, reinterpret_cast<const uint8_t*>(&value) + 2, 2);
      } else if (BitWidth(type) == 8) {
        data[i] = static_cast<uint8_t>(random_());
      } else {
        data[i / 2] |= static_cast<uint8_t>((random_() & 0xF) << (i % 2 == 0 ? 0 : 4));
      }
    }
    return {type, reinterpret_cast<const std::byte*>(data), row_elements};
  }

  std::mt19937 random_;
  std::vector<uint8_t> codes_;
  std::vector<uint8_t> scales_;
  std::vector<uint8_t> zero_points_;
  MatrixSource source_;
};

inline std::string Describe(const MatrixSpec& spec) {
  return Concat(Name(spec.type), " n", spec.n, " k", spec.k,
                spec.order == MatrixOrder::kInputsFirst ? " kn" : " nk", " block ", spec.block_n,
                "x", spec.block_k, " zero points ", Name(spec.zero_point_type));
}

}  // namespace tandem

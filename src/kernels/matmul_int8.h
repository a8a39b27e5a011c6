#pragma once

#include <cstdint>
#include <memory>

#include "base/aligned_buffer.h"
#include "kernels/packed_matrix.h"

namespace tandem {

// Rows of activations in 8 bits: blocks of inputs share a scale, x = scale * code with code from
// -127 to 127 and the scale such that the largest of a block is exact. Made by a QuantizeKernel.
class QuantizedRows {
 public:
  // Memory for `rows` rows that are to be multiplied with `w`, whose layout is quantized.
  QuantizedRows(const PackedMatrix& w, uint64_t rows);

  uint64_t rows() const { return rows_; }
  uint64_t inputs() const { return inputs_; }
  // Inputs of a block: never two scales of the weight in one.
  uint64_t block() const { return block_; }
  uint64_t blocks() const { return CeilDivide(inputs_, block_); }

  // Codes of a row, zeros behind the last input up to a multiple of 32.
  int8_t* codes(uint64_t row) { return codes_.get() + row * stride_; }
  const int8_t* codes(uint64_t row) const { return codes_.get() + row * stride_; }
  // [blocks()] of a row: the scales, and the sums of codes.
  float* scales(uint64_t row) { return scales_.get() + row * 2 * blocks(); }
  const float* scales(uint64_t row) const { return scales_.get() + row * 2 * blocks(); }
  float* sums(uint64_t row) { return scales(row) + blocks(); }
  const float* sums(uint64_t row) const { return scales(row) + blocks(); }

 private:
  uint64_t rows_;
  uint64_t inputs_;
  uint64_t block_;
  uint64_t stride_;  // codes of a row
  std::unique_ptr<int8_t[]> codes_;
  std::unique_ptr<float[]> scales_;
};

// Quantizes rows [first, last) of x [rows][inputs]. A row with an infinity or a NaN gives NaN.
using QuantizeKernel = void (*)(const float* x, QuantizedRows& to, uint64_t first, uint64_t last);

// MatMulKernel (kernels/matmul.h) over quantized rows; products are summed in integers, exactly,
// block by block. Of layouts kU8 and kU4 only.
using MatMulInt8Kernel = void (*)(const PackedMatrix& w, const QuantizedRows& x, float* y,
                                  uint64_t first, uint64_t last);

}  // namespace tandem

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/aligned_buffer.h"
#include "kernels/matmul.h"

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
  // Those that inputs [first, last) are in.
  Range BlocksOf(Range inputs) const {
    return {inputs.first / block_, CeilDivide(inputs.last, block_)};
  }

  // Codes of a row, zeros behind the last input up to a multiple of 32; from row to row stride().
  int8_t* codes(uint64_t row) { return codes_.get() + row * stride_; }
  const int8_t* codes(uint64_t row) const { return codes_.get() + row * stride_; }
  uint64_t stride() const { return stride_; }
  // [rows()] of a block.
  float* scales(uint64_t block) { return scales_.get() + block * rows_; }
  const float* scales(uint64_t block) const { return scales_.get() + block * rows_; }
  // [rows()] of a block: what zero_point() adds to a sum of products, that is minus the zero point
  // times the sum of the codes; the sum of the codes when there is none.
  int32_t* offsets(uint64_t block) { return offsets_.get() + block * rows_; }
  const int32_t* offsets(uint64_t block) const { return offsets_.get() + block * rows_; }
  // The zero point of the whole weight, unless its outputs have their own.
  std::optional<int32_t> zero_point() const { return zero_point_; }

 private:
  uint64_t rows_;
  uint64_t inputs_;
  uint64_t block_;
  uint64_t stride_;
  std::optional<int32_t> zero_point_;
  std::unique_ptr<int8_t[]> codes_;
  std::unique_ptr<float[]> scales_;
  std::unique_ptr<int32_t[]> offsets_;
};

// Whether codes that were made for `a` serve `b` too. Both are quantized.
bool ShareRows(const PackedMatrix& a, const PackedMatrix& b);

// Quantizes some blocks of some rows, at the first of which x begins. A block with an infinity or a
// NaN makes its row NaN. Calls for different rows or blocks can run at the same time.
using QuantizeKernel = void (*)(Rows<const float> x, QuantizedRows& to, Range rows, Range blocks);

// MatMulKernel (kernels/matmul.h) over some of the quantized rows, at the first of which the addend
// and y begin; products are summed in integers, exactly, block by block. Of layouts kU8 and kU4
// only.
using MatMulInt8Kernel = void (*)(const PackedMatrix& w, const QuantizedRows& x, Range rows,
                                  Addend addend, Outputs y, Range panels);

}  // namespace tandem

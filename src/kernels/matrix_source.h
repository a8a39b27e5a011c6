#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/data_type.h"

namespace tandem {

// A weight matrix W as its file holds it, for y[m][n] = sum over k of x[m][k] * W[n][k]: `n`
// outputs and `k` inputs. Everything here borrows the bytes of the file.

enum class MatrixOrder {
  kOutputsFirst,  // W[n][k] in memory: Gemm with transB, MatMulNBits, an embedding table
  kInputsFirst,   // W[k][n] in memory: MatMul
};

// Elements in rows, in the order of the matrix. Rows can be padded. 4-bit elements are packed two
// to a byte over the end of a row, unless padding makes rows end on a byte. Misaligned data is
// fine.
struct ElementRows {
  DataType type = DataType::kUndefined;
  const std::byte* data = nullptr;
  uint64_t row_elements = 0;  // from one row to the next
};

// One value for each block of the matrix, such as its scales.
struct BlockValues {
  ElementRows values;
  uint64_t block_n = 1;  // outputs that share a value
  uint64_t block_k = 1;  // inputs that share a value
};

// W = (code - zero point) * scale when there are scales, else W = code. Codes with scales are
// u4, i4, u8 or i8; without they are f32, f16 or bf16.
struct MatrixSource {
  uint64_t n = 0;
  uint64_t k = 0;
  MatrixOrder order = MatrixOrder::kInputsFirst;
  ElementRows codes;
  std::optional<BlockValues> scales;       // f32, f16 or bf16
  std::optional<BlockValues> zero_points;  // as the codes, or as the scales
  float default_zero_point = 0;            // where there are no zero_points

  // One element of W, in the arithmetic of ONNX's DequantizeLinear. Slow: for tests and for the
  // matrices that no packed layout fits.
  float Value(uint64_t output, uint64_t input) const;

  float Scale(uint64_t output, uint64_t input) const;
  float ZeroPoint(uint64_t output, uint64_t input) const;
};

// Element `index` of `rows`, counted over rows without regard to padding.
float ReadFloat(const ElementRows& rows, uint64_t index);

// The same for codes: as an unsigned number, signed types shifted by half their range (i4 + 8,
// i8 + 128).
uint8_t ReadCode(const ElementRows& rows, uint64_t index);

// What ReadCode adds to a code of this type: 8 for i4, 128 for i8, else 0.
int CodeShift(DataType type);

}  // namespace tandem

#include "kernels/matrix_source.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/strings.h"

namespace tandem {
namespace {

template <typename T>
T Load(const std::byte* data, uint64_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

uint64_t Index(MatrixOrder order, const ElementRows& rows, uint64_t n, uint64_t k) {
  return order == MatrixOrder::kOutputsFirst ? n * rows.row_elements + k
                                             : k * rows.row_elements + n;
}

float BlockValue(const MatrixSource& matrix, const BlockValues& blocks, uint64_t n, uint64_t k) {
  return ReadFloat(blocks.values,
                   Index(matrix.order, blocks.values, n / blocks.block_n, k / blocks.block_k));
}

}  // namespace

float ReadFloat(const ElementRows& rows, uint64_t index) {
  switch (rows.type) {
    case DataType::kFloat32:
      return Load<float>(rows.data, index);
    case DataType::kFloat16:
      return HalfToFloat(Load<uint16_t>(rows.data, index));
    case DataType::kBfloat16:
      return Bfloat16ToFloat(Load<uint16_t>(rows.data, index));
    default:
      return static_cast<float>(ReadCode(rows, index) - CodeShift(rows.type));
  }
}

uint8_t ReadCode(const ElementRows& rows, uint64_t index) {
  switch (rows.type) {
    case DataType::kUint8:
      return Load<uint8_t>(rows.data, index);
    case DataType::kInt8:
      return Load<uint8_t>(rows.data, index) ^ 0x80;
    case DataType::kUint4:
    case DataType::kInt4: {
      const auto pair = Load<uint8_t>(rows.data, index / 2);
      const uint8_t code = index % 2 == 0 ? pair & 0xF : pair >> 4;
      return rows.type == DataType::kInt4 ? code ^ 0x8 : code;
    }
    default:
      throw Error(ErrorCode::kInternal, Concat("no integer codes of type ", Name(rows.type)));
  }
}

int CodeShift(DataType type) {
  return type == DataType::kInt4 ? 8 : type == DataType::kInt8 ? 128 : 0;
}

float MatrixSource::Scale(uint64_t output, uint64_t input) const {
  return scales ? BlockValue(*this, *scales, output, input) : 1;
}

float MatrixSource::ZeroPoint(uint64_t output, uint64_t input) const {
  return zero_points ? BlockValue(*this, *zero_points, output, input) : default_zero_point;
}

float MatrixSource::Value(uint64_t output, uint64_t input) const {
  const float code = ReadFloat(codes, Index(order, codes, output, input));
  if (!scales) return code;
  return (code - ZeroPoint(output, input)) * Scale(output, input);
}

}  // namespace tandem

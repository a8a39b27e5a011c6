#pragma once

#include <cstdint>
#include <string_view>

namespace tandem {

// Element types, with the numbers of ONNX's TensorProto.DataType (onnx.proto3), which ONNX
// Runtime's ONNXTensorElementDataType shares.
enum class DataType : int32_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
  kUint4 = 21,
  kInt4 = 22,
};

// `number` as a DataType, or kUndefined for the types that Tandem leaves alone (complex, float8,
// ...).
DataType DataTypeFromOnnx(int32_t number);

// Bits of one element; 0 for kUndefined and kString. Elements of 4 bits are packed two to a byte,
// the first in the low half.
int BitWidth(DataType type);

// f32, f16, bf16 or f64.
bool IsFloat(DataType type);

// f32, f16 or bf16: f32 holds every value of theirs.
bool FitsFloat32(DataType type);

// "f32", "u4", ...
std::string_view Name(DataType type);

}  // namespace tandem

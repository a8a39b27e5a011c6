#include "base/data_type.h"

#include <algorithm>
#include <array>

namespace tandem {
namespace {

struct Row {
  DataType type;
  int bits;
  std::string_view name;
};

constexpr std::array kRows{
    Row{DataType::kUndefined, 0, "undefined"},
    Row{DataType::kFloat32, 32, "f32"},
    Row{DataType::kUint8, 8, "u8"},
    Row{DataType::kInt8, 8, "i8"},
    Row{DataType::kUint16, 16, "u16"},
    Row{DataType::kInt16, 16, "i16"},
    Row{DataType::kInt32, 32, "i32"},
    Row{DataType::kInt64, 64, "i64"},
    Row{DataType::kString, 0, "string"},
    Row{DataType::kBool, 8, "bool"},
    Row{DataType::kFloat16, 16, "f16"},
    Row{DataType::kFloat64, 64, "f64"},
    Row{DataType::kUint32, 32, "u32"},
    Row{DataType::kUint64, 64, "u64"},
    Row{DataType::kBfloat16, 16, "bf16"},
    Row{DataType::kUint4, 4, "u4"},
    Row{DataType::kInt4, 4, "i4"},
};

const Row& Find(int32_t number) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [number](const Row& candidate) {
    return static_cast<int32_t>(candidate.type) == number;
  });
  return row == kRows.end() ? kRows.front() : *row;
}

}  // namespace

DataType DataTypeFromOnnx(int32_t number) {
  return Find(number).type;
}

int BitWidth(DataType type) {
  return Find(static_cast<int32_t>(type)).bits;
}

bool IsFloat(DataType type) {
  return FitsFloat32(type) || type == DataType::kFloat64;
}

bool FitsFloat32(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

std::string_view Name(DataType type) {
  return Find(static_cast<int32_t>(type)).name;
}

}  // namespace tandem

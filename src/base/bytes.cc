#include "base/bytes.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/strings.h"

namespace tandem {

uint64_t CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw Error(ErrorCode::kInvalidModel, Concat("size overflows 64 bits: ", a, " + ", b));
  }
  return sum;
}

uint64_t CheckedMultiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw Error(ErrorCode::kInvalidModel, Concat("size overflows 64 bits: ", a, " * ", b));
  }
  return product;
}

bool IsStatic(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](int64_t dimension) { return dimension >= 0; });
}

uint64_t ElementCount(const Shape& shape) {
  uint64_t count = 1;
  for (int64_t dimension : shape) {
    if (dimension < 0) {
      throw Error(ErrorCode::kInvalidModel, Concat("shape ", ShapeText(shape), " is not static"));
    }
    count = CheckedMultiply(count, static_cast<uint64_t>(dimension));
  }
  return count;
}

uint64_t TensorBytes(DataType type, const Shape& shape) {
  const int bits = BitWidth(type);
  if (bits == 0) {
    throw Error(ErrorCode::kUnsupported,
                Concat("a tensor of type ", Name(type), " has no size in bytes"));
  }
  return CeilDivide(CheckedMultiply(ElementCount(shape), static_cast<uint64_t>(bits)), 8);
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

}  // namespace tandem

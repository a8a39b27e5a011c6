#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/data_type.h"

namespace tandem {

using ByteSpan = std::span<const std::byte>;

// Dimensions of a tensor. Where a shape may be unknown, -1 stands for an unknown dimension.
using Shape = std::vector<int64_t>;

// a + b and a * b; throws Error(kInvalidModel) instead of wrapping around.
uint64_t CheckedAdd(uint64_t a, uint64_t b);
uint64_t CheckedMultiply(uint64_t a, uint64_t b);

constexpr uint64_t CeilDivide(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return CeilDivide(value, alignment) * alignment;
}

// Whether all dimensions are known.
bool IsStatic(const Shape& shape);

// Number of elements of a static shape; throws Error(kInvalidModel) on a negative dimension or on
// overflow.
uint64_t ElementCount(const Shape& shape);

// Bytes of a tensor of this type and static shape, the last one filled up for 4-bit types. Throws
// Error(kUnsupported) for types without a fixed width.
uint64_t TensorBytes(DataType type, const Shape& shape);

// Elements of i32 that hold an address.
constexpr size_t kAddressElements = sizeof(void*) / sizeof(int32_t);

// "1.5 GiB", "17 B": for people.
std::string FormatBytes(uint64_t bytes);

// The bytes of a contiguous range of trivially copyable values.
template <typename T>
ByteSpan AsBytes(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}

}  // namespace tandem

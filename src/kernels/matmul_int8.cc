#include "kernels/matmul_int8.h"

#include <cmath>
#include <numeric>

namespace tandem {
namespace {

constexpr uint64_t kMostInputs = 32;  // of a block

std::optional<int32_t> ZeroPoint(const PackedMatrix& w) {
  const float value = w.zero_point();
  if (w.zero_points(0) != nullptr || value != std::nearbyint(value)) return std::nullopt;
  return static_cast<int32_t>(value);
}

}  // namespace

QuantizedRows::QuantizedRows(const PackedMatrix& w, uint64_t rows)
    : rows_(rows),
      inputs_(w.k()),
      block_(w.block_k() == w.k() ? kMostInputs : std::gcd(w.block_k(), kMostInputs)),
      stride_(AlignUp(w.k(), kMostInputs)),
      zero_point_(ZeroPoint(w)),
      codes_(std::make_unique_for_overwrite<int8_t[]>(rows * stride_)),
      scales_(std::make_unique_for_overwrite<float[]>(rows * blocks())),
      offsets_(std::make_unique_for_overwrite<int32_t[]>(rows * blocks())) {}

bool ShareRows(const PackedMatrix& a, const PackedMatrix& b) {
  return a.k() == b.k() && a.block_k() == b.block_k() && ZeroPoint(a) == ZeroPoint(b);
}

}  // namespace tandem

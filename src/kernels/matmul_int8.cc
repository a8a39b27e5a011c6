#include "kernels/matmul_int8.h"

#include <numeric>

namespace tandem {
namespace {

constexpr uint64_t kMostInputs = 32;  // of a block

}  // namespace

QuantizedRows::QuantizedRows(const PackedMatrix& w, uint64_t rows)
    : rows_(rows),
      inputs_(w.k()),
      block_(w.block_k() == w.k() ? kMostInputs : std::gcd(w.block_k(), kMostInputs)),
      stride_(AlignUp(w.k(), kMostInputs)),
      codes_(std::make_unique_for_overwrite<int8_t[]>(rows * stride_)),
      scales_(std::make_unique_for_overwrite<float[]>(rows * 2 * blocks())) {}

}  // namespace tandem

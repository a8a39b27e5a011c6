#include "kernels/rotary_embedding.h"

#include <algorithm>

#include "kernels/kernels.h"

namespace tandem {
namespace {

void RotateHalves(const float* x, const float* cos, const float* sin, uint64_t second,
                  uint64_t pairs, float* out) {
  static const RotateKernel kernel = KernelsFor(ActiveIsa()).rotate;
  kernel(x, cos, sin, second, pairs, out);
}

}  // namespace

void RotateRow(const float* x, const float* cos, const float* sin, uint64_t size, float* out) {
  RotateHalves(x, cos, sin, size / 2, size / 2, out);
}

void RotatePairs(const float* x, const float* cos, const float* sin, uint64_t pairs,
                 bool is_interleaved, uint64_t size, float* out) {
  if (is_interleaved) {
    for (uint64_t i = 0; i < pairs; ++i) {
      const float first = x[2 * i];
      const float second = x[2 * i + 1];
      out[2 * i] = first * cos[i] - second * sin[i];
      out[2 * i + 1] = second * cos[i] + first * sin[i];
    }
  } else {
    RotateHalves(x, cos, sin, 0, pairs, out);
  }
  std::copy(x + 2 * pairs, x + size, out + 2 * pairs);
}

}  // namespace tandem

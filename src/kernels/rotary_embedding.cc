#include "kernels/rotary_embedding.h"

namespace tandem {

void RotateRow(const float* x, const float* cos, const float* sin, uint64_t size, float* out) {
  const uint64_t half = size / 2;
  for (uint64_t i = 0; i < half; ++i) {
    const float first = x[i];
    const float second = x[half + i];
    out[i] = first * cos[i] - second * sin[i];
    out[half + i] = second * cos[half + i] + first * sin[half + i];
  }
}

}  // namespace tandem

#include "kernels/rotary_embedding.h"

#include <algorithm>

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

void RotatePairs(const float* x, const float* cos, const float* sin, uint64_t pairs,
                 bool is_interleaved, uint64_t size, float* out) {
  const uint64_t step = is_interleaved ? 2 : 1;
  const uint64_t distance = is_interleaved ? 1 : pairs;
  for (uint64_t i = 0; i < pairs; ++i) {
    const uint64_t at = i * step;
    const float first = x[at];
    const float second = x[at + distance];
    out[at] = first * cos[i] - second * sin[i];
    out[at + distance] = second * cos[i] + first * sin[i];
  }
  std::copy(x + 2 * pairs, x + size, out + 2 * pairs);
}

}  // namespace tandem

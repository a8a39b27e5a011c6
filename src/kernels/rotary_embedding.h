#pragma once

#include <cstdint>

namespace tandem {

// Rotary position embedding (https://arxiv.org/abs/2104.09864) of one row of `size` elements, whose
// halves make up the pairs:
//
//   out[i]        = x[i] * cos[i]               - x[size/2 + i] * sin[i]
//   out[size/2+i] = x[size/2+i] * cos[size/2+i] + x[i] * sin[size/2+i]
//
// out may not overlap x.
void RotateRow(const float* x, const float* cos, const float* sin, uint64_t size, float* out);

// The same with one cos and sin for each pair, of the first 2 * pairs elements of the row; the rest
// is copied. The pairs are the halves of these, or neighbours (`is_interleaved`).
void RotatePairs(const float* x, const float* cos, const float* sin, uint64_t pairs,
                 bool is_interleaved, uint64_t size, float* out);

}  // namespace tandem

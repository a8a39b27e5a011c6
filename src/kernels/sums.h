#pragma once

// Included by vector_avx2.h and vector_avx512.h only.

#include <immintrin.h>

#include <array>

namespace tandem {
namespace {

// to[i] = the sum of the 8 elements of a[i].
inline void StoreSums(const __m256 (&a)[4], float* to) {
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
  _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
}

}  // namespace
}  // namespace tandem

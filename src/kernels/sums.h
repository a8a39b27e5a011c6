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

// to[i] = the largest of the 8 elements of a[i].
inline void StoreLargests(const __m256 (&a)[4], float* to) {
  const auto halves = [](__m256 b, __m256 c) {
    return _mm256_max_ps(_mm256_unpacklo_ps(b, c), _mm256_unpackhi_ps(b, c));
  };
  const __m256d b = _mm256_castps_pd(halves(a[0], a[1]));
  const __m256d c = _mm256_castps_pd(halves(a[2], a[3]));
  const __m256 largest = _mm256_max_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(b, c)),
                                       _mm256_castpd_ps(_mm256_unpackhi_pd(b, c)));
  const __m128 upper = _mm256_extractf128_ps(largest, 1);
  _mm_storeu_ps(to, _mm_max_ps(_mm256_castps256_ps128(largest), upper));
}

}  // namespace
}  // namespace tandem

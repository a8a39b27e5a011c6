#pragma once

#include <immintrin.h>

#include "kernels/sums.h"
#include "kernels/vector.h"

// 16 floats; kernels/vector.h says what they can do.

namespace tandem {
namespace {

struct Zmm {
  static constexpr uint64_t kTileRows = 12;
  static constexpr uint64_t kTilePanels = 2;
  static constexpr uint64_t kInt8Rows = 9;
  static constexpr uint64_t kInt8Panels = 2;
  static constexpr uint64_t kInt8RowsOfPanels = 6;

  using Codes = __m512i;
  using Ints = __m512i;

  __m512 v;

  static Zmm Zero() { return {_mm512_setzero_ps()}; }
  static Zmm Broadcast(float value) { return {_mm512_set1_ps(value)}; }
  static Zmm Load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Zmm LoadF16(const uint16_t* from) { return {_mm512_cvtph_ps(Load16x16(from))}; }
  static Zmm LoadBf16(const uint16_t* from) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(Load16x16(from)), 16))};
  }
  static Zmm LoadU8(const uint8_t* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))};
  }
  void Store(float* to) const { _mm512_storeu_ps(to, v); }

  static Codes LoadCodes(const std::byte* from) { return _mm512_loadu_si512(from); }
  static Codes LowHalves(Codes c) { return _mm512_and_si512(c, _mm512_set1_epi8(0xF)); }
  static Codes HighHalves(Codes c) { return LowHalves(_mm512_srli_epi16(c, 4)); }
  static Ints BroadcastInt(int32_t value) { return _mm512_set1_epi32(value); }
  static Ints LoadInts(const int32_t* from) { return _mm512_loadu_si512(from); }
  static Zmm ToFloats(Ints sum) { return {_mm512_cvtepi32_ps(sum)}; }
#ifdef __AVX512VNNI__
  static Ints DotU4(Ints sum, Codes w, int32_t x) { return DotU8(sum, w, x); }
  static Ints DotU8(Ints sum, Codes w, int32_t x) {
    return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(x));
  }
#else
  static Ints DotU4(Ints sum, Codes w, int32_t x) {
    const __m512i pairs = _mm512_maddubs_epi16(w, _mm512_set1_epi32(x));
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  // Sums of two products of 8 bits may not fit 16: even and odd bytes apart.
  static Ints DotU8(Ints sum, Codes w, int32_t x) {
    const __m512i inputs = _mm512_set1_epi32(x);
    const __m512i even = _mm512_and_si512(w, _mm512_set1_epi16(0xFF));
    const __m512i odd = _mm512_srli_epi16(w, 8);
    const __m512i even_inputs = _mm512_srai_epi16(_mm512_slli_epi16(inputs, 8), 8);
    const __m512i odd_inputs = _mm512_srai_epi16(inputs, 8);
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(even, even_inputs));
    return _mm512_add_epi32(sum, _mm512_madd_epi16(odd, odd_inputs));
  }
#endif
  void StoreI8(int8_t* to) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
  }

  friend Zmm operator+(Zmm a, Zmm b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Zmm operator-(Zmm a, Zmm b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Zmm operator*(Zmm a, Zmm b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Zmm operator/(Zmm a, Zmm b) { return {_mm512_div_ps(a.v, b.v)}; }
  friend Zmm MulAdd(Zmm a, Zmm b, Zmm c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

  friend Zmm Round(Zmm a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  friend Zmm Max(Zmm a, Zmm b) { return {_mm512_max_ps(a.v, b.v)}; }
  friend float Sum(Zmm a) { return _mm512_reduce_add_ps(a.v); }
  friend void Sums(const std::array<Zmm, 4>& a, float* to) {
    __m256 half[4];
    for (size_t i = 0; i < 4; ++i) {
      half[i] = _mm256_add_ps(_mm512_castps512_ps256(a[i].v), _mm512_extractf32x8_ps(a[i].v, 1));
    }
    StoreSums(half, to);
  }
  friend void Largests(const std::array<Zmm, 4>& a, float* to) {
    __m256 half[4];
    for (size_t i = 0; i < 4; ++i) {
      half[i] = _mm256_max_ps(_mm512_castps512_ps256(a[i].v), _mm512_extractf32x8_ps(a[i].v, 1));
    }
    StoreLargests(half, to);
  }
  friend float Largest(Zmm a) { return _mm512_reduce_max_ps(a.v); }
  // x = exponent * ln 2 + rest; e^x = 2^exponent * e^rest.
  friend Zmm Exp(Zmm a) {
    const __m512 exponent =
        _mm512_roundscale_ps(_mm512_mul_ps(a.v, _mm512_set1_ps(kLog2E)), _MM_FROUND_TO_NEAREST_INT);
    __m512 rest = _mm512_fnmadd_ps(exponent, _mm512_set1_ps(kLn2High), a.v);
    rest = _mm512_fnmadd_ps(exponent, _mm512_set1_ps(kLn2Low), rest);
    __m512 sum = _mm512_set1_ps(kExpCoefficients[5]);
    for (int i = 4; i >= 0; --i) {
      sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(kExpCoefficients[i]));
    }
    const __m512 one = _mm512_set1_ps(1);
    sum = _mm512_fmadd_ps(_mm512_mul_ps(rest, rest), sum, _mm512_add_ps(rest, one));
    const __mmask16 is_in_range = _mm512_cmp_ps_mask(a.v, _mm512_set1_ps(kExpLowest), _CMP_GE_OQ);
    return {_mm512_maskz_scalef_ps(is_in_range, sum, exponent)};
  }

  friend void DecodeU8(const uint8_t* group, Zmm (&w)[4]) {
    const __m512i words = _mm512_loadu_si512(group);
    const __m512i mask = _mm512_set1_epi32(0xFF);
    for (unsigned i = 0; i < 4; ++i) {
      w[i] = {_mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(words, 8 * i), mask))};
    }
  }
  friend void DecodeU4(const uint8_t* group, Zmm (&w)[8]) {
    const __m512i words = _mm512_loadu_si512(group);
    // A permutation reads the low four bits of each index only: a table look-up from 4 bits to
    // float without masking.
    const __m512 table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (unsigned i = 0; i < 4; ++i) {
      w[i] = {_mm512_permutexvar_ps(_mm512_srli_epi32(words, 8 * i), table)};
      w[4 + i] = {_mm512_permutexvar_ps(_mm512_srli_epi32(words, 8 * i + 4), table)};
    }
  }

 private:
  static __m256i Load16x16(const uint16_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
};

}  // namespace
}  // namespace tandem

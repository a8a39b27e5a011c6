#pragma once

#include <immintrin.h>

#include "kernels/sums.h"
#include "kernels/vector.h"

// 16 floats; kernels/vector.h says what they can do.

namespace tandem {
namespace {

struct Ymm2 {
  // Two registers for each row, and two for the weights: 14 of 16.
  static constexpr uint64_t kTileRows = 6;
  static constexpr uint64_t kTilePanels = 1;
  static constexpr uint64_t kInt8Rows = 3;
  static constexpr uint64_t kInt8Panels = 1;
  static constexpr uint64_t kInt8RowsOfPanels = kInt8Rows;

  struct Codes {
    __m256i low, high;
  };
  using Ints = Codes;

  __m256 low, high;

  static Ymm2 Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Ymm2 Broadcast(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static Ymm2 Load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static Ymm2 LoadF16(const uint16_t* from) {
    return {_mm256_cvtph_ps(Load8x16(from)), _mm256_cvtph_ps(Load8x16(from + 8))};
  }
  static Ymm2 LoadBf16(const uint16_t* from) {
    const auto widen = [](__m128i bits) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    };
    return {widen(Load8x16(from)), widen(Load8x16(from + 8))};
  }
  static Ymm2 LoadU8(const uint8_t* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  void Store(float* to) const {
    _mm256_storeu_ps(to, low);
    _mm256_storeu_ps(to + 8, high);
  }

  static Codes LoadCodes(const std::byte* from) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32))};
  }
  static Codes LowHalves(Codes c) {
    const __m256i mask = _mm256_set1_epi8(0xF);
    return {_mm256_and_si256(c.low, mask), _mm256_and_si256(c.high, mask)};
  }
  static Codes HighHalves(Codes c) {
    return LowHalves({_mm256_srli_epi16(c.low, 4), _mm256_srli_epi16(c.high, 4)});
  }
  static Ints BroadcastInt(int32_t value) {
    return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)};
  }
  static Ymm2 ToFloats(Ints sum) {
    return {_mm256_cvtepi32_ps(sum.low), _mm256_cvtepi32_ps(sum.high)};
  }
#if defined(__AVXVNNI__) || defined(__AVX512VNNI__)
  static Ints DotU4(Ints sum, Codes w, int32_t x) { return DotU8(sum, w, x); }
  static Ints DotU8(Ints sum, Codes w, int32_t x) {
    const __m256i inputs = _mm256_set1_epi32(x);
    return {_mm256_dpbusd_epi32(sum.low, w.low, inputs),
            _mm256_dpbusd_epi32(sum.high, w.high, inputs)};
  }
#else
  static Ints DotU4(Ints sum, Codes w, int32_t x) {
    const __m256i inputs = _mm256_set1_epi32(x);
    const auto dot = [&](__m256i part, __m256i codes) {
      const __m256i pairs = _mm256_maddubs_epi16(codes, inputs);
      return _mm256_add_epi32(part, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    };
    return {dot(sum.low, w.low), dot(sum.high, w.high)};
  }
  // Sums of two products of 8 bits may not fit 16: even and odd bytes apart.
  static Ints DotU8(Ints sum, Codes w, int32_t x) {
    const __m256i inputs = _mm256_set1_epi32(x);
    const __m256i even_inputs = _mm256_srai_epi16(_mm256_slli_epi16(inputs, 8), 8);
    const __m256i odd_inputs = _mm256_srai_epi16(inputs, 8);
    const auto dot = [&](__m256i part, __m256i codes) {
      const __m256i even = _mm256_and_si256(codes, _mm256_set1_epi16(0xFF));
      const __m256i odd = _mm256_srli_epi16(codes, 8);
      part = _mm256_add_epi32(part, _mm256_madd_epi16(even, even_inputs));
      return _mm256_add_epi32(part, _mm256_madd_epi16(odd, odd_inputs));
    };
    return {dot(sum.low, w.low), dot(sum.high, w.high)};
  }
#endif
  void StoreI8(int8_t* to) const {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0b11011000);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
  }

  friend Ymm2 operator+(Ymm2 a, Ymm2 b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  friend Ymm2 operator-(Ymm2 a, Ymm2 b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  friend Ymm2 operator*(Ymm2 a, Ymm2 b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  friend Ymm2 operator/(Ymm2 a, Ymm2 b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  friend Ymm2 MulAdd(Ymm2 a, Ymm2 b, Ymm2 c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  friend Ymm2 Round(Ymm2 a) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.low, kNearest), _mm256_round_ps(a.high, kNearest)};
  }
  friend Ymm2 Max(Ymm2 a, Ymm2 b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  friend float Sum(Ymm2 a) {
    const __m256 half = _mm256_add_ps(a.low, a.high);
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
  }
  friend void Sums(const std::array<Ymm2, 4>& a, float* to) {
    __m256 half[4];
    for (size_t i = 0; i < 4; ++i) half[i] = _mm256_add_ps(a[i].low, a[i].high);
    StoreSums(half, to);
  }
  friend void Largests(const std::array<Ymm2, 4>& a, float* to) {
    __m256 half[4];
    for (size_t i = 0; i < 4; ++i) half[i] = _mm256_max_ps(a[i].low, a[i].high);
    StoreLargests(half, to);
  }
  friend float Largest(Ymm2 a) {
    const __m256 half = _mm256_max_ps(a.low, a.high);
    __m128 most = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    most = _mm_max_ps(most, _mm_movehl_ps(most, most));
    return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
  }
  friend Ymm2 Exp(Ymm2 a) { return {ExpOf(a.low), ExpOf(a.high)}; }
  friend void DecodeU8(const uint8_t* group, Ymm2 (&w)[4]) {
    const __m256i mask = _mm256_set1_epi32(0xFF);
    Decode<8>(group, mask, w);
  }
  friend void DecodeU4(const uint8_t* group, Ymm2 (&w)[8]) {
    const __m256i mask = _mm256_set1_epi32(0xF);
    Ymm2 first[4];
    Ymm2 last[4];
    Decode<8>(group, mask, first);
    Decode<8, 4>(group, mask, last);
    for (int i = 0; i < 4; ++i) {
      w[i] = first[i];
      w[4 + i] = last[i];
    }
  }

 private:
  // x = exponent * ln 2 + rest; e^x = 2^exponent * e^rest.
  static __m256 ExpOf(__m256 x) {
    const __m256 exponent = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(kLog2E)),
                                            _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 rest = _mm256_fnmadd_ps(exponent, _mm256_set1_ps(kLn2High), x);
    rest = _mm256_fnmadd_ps(exponent, _mm256_set1_ps(kLn2Low), rest);
    __m256 sum = _mm256_set1_ps(kExpCoefficients[5]);
    for (int i = 4; i >= 0; --i) {
      sum = _mm256_fmadd_ps(sum, rest, _mm256_set1_ps(kExpCoefficients[i]));
    }
    const __m256 one = _mm256_set1_ps(1);
    sum = _mm256_fmadd_ps(_mm256_mul_ps(rest, rest), sum, _mm256_add_ps(rest, one));
    const __m256i power = _mm256_slli_epi32(
        _mm256_add_epi32(_mm256_cvtps_epi32(exponent), _mm256_set1_epi32(127)), 23);
    const __m256 is_in_range = _mm256_cmp_ps(x, _mm256_set1_ps(kExpLowest), _CMP_GE_OQ);
    return _mm256_and_ps(_mm256_mul_ps(sum, _mm256_castsi256_ps(power)), is_in_range);
  }

  static __m128i Load8x16(const uint16_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }

  // w[i] = the bits of `mask` at kShift + i * kStep of each of the 16 words.
  template <int kStep, int kShift = 0>
  static void Decode(const uint8_t* group, __m256i mask, Ymm2 (&w)[4]) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(group));
    const __m256i more = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(group + 32));
    for (int i = 0; i < 4; ++i) {
      const int shift = kShift + i * kStep;
      w[i] = {_mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(words, shift), mask)),
              _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(more, shift), mask))};
    }
  }
};

}  // namespace
}  // namespace tandem

#pragma once

// The kernels are written once, over a vector of 16 floats, and compiled for every instruction set.
// vector_portable.h, vector_avx2.h and vector_avx512.h define one each, with these members:
//
//   V::Zero(), V::Broadcast(float), V::Load(const float*), v.Store(float*)
//   V::LoadF16(const uint16_t*), V::LoadBf16(const uint16_t*), V::LoadU8(const uint8_t*)
//   MulAdd(a, b, c) = a * b + c;  a + b, a - b, a * b, a / b;  Max(a, b): b if either is NaN
//   Sum(v), Largest(v): of the 16 elements;  Sums(a, to), Largests(a, to): to[i] = that of a[i],
//   for four Exp(v): e^x to 2e-7 relative, 0 below -87 DecodeU8(const uint8_t*, V (&)[4]),
//   DecodeU4(const uint8_t*, V (&)[8]): a group of a packed panel V::kTileRows, V::kTilePanels: of
//   a tile of sums that the registers hold, beside what else they need; V::kInt8Rows: the same of
//   one panel with activations in 8 bits; V::kInt8RowsOfPanels: the same of V::kInt8Panels panels
//
// and for activations in 8 bits (matmul_int8_impl.h), with V::Codes, 64 bytes of a packed panel (16
// outputs of 4 inputs each), and V::Ints, 16 sums of 32 bits:
//
//   V::LoadCodes(const std::byte*); V::LowHalves(Codes), V::HighHalves(Codes): 4 bits of each byte
//   V::DotU4(Ints, Codes, int32_t), V::DotU8: adds the products with 4 signed bytes; codes of DotU4
//   are below 16
//   V::BroadcastInt(int32_t), V::ToFloats(Ints); Round(v), to the nearest; v.StoreI8(int8_t*)
//   V::LoadInts(const int32_t*): for tiles (matmul_tiles_impl.h), hence of vector_avx512.h only
//
// Everything in those files and in the *_impl.h files is in an unnamed namespace: each translation
// unit must keep its own copy, compiled for its own instruction set.

#include <cstdint>
#include <cstring>

#include "kernels/packed_matrix.h"

namespace tandem {
namespace {

// The first `count` of 16 floats; the others are 0 when read and untouched when written.
template <typename V>
V LoadPart(const float* from, uint64_t count) {
  if (count == kPanelOutputs) return V::Load(from);
  float whole[kPanelOutputs] = {};
  std::memcpy(whole, from, count * sizeof(float));
  return V::Load(whole);
}

template <typename V>
void StorePart(V v, float* to, uint64_t count) {
  if (count == kPanelOutputs) return v.Store(to);
  float whole[kPanelOutputs];
  v.Store(whole);
  std::memcpy(to, whole, count * sizeof(float));
}

// The first `count` of 16 codes.
template <typename V>
void StorePartI8(V v, int8_t* to, uint64_t count) {
  if (count == kPanelOutputs) return v.StoreI8(to);
  int8_t whole[kPanelOutputs];
  v.StoreI8(whole);
  std::memcpy(to, whole, count);
}

// Coefficients of e^r for |r| <= ln(2)/2, of r^2 on: minimax, by the Remez algorithm.
constexpr float kExpCoefficients[] = {0.5F,           0.166666657F,   0.0416657180F,
                                      0.00833336077F, 0.00139243139F, 0.000198956902F};
constexpr float kExpLowest = -87.0F;
constexpr float kLog2E = 1.44269504F;
constexpr float kLn2High = 0.693359375F;  // 9 bits: times an exponent it is exact
constexpr float kLn2Low = -2.12194440e-4F;

}  // namespace
}  // namespace tandem

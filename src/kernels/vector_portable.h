#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "base/half.h"
#include "kernels/vector.h"

// 16 floats; kernels/vector.h says what they can do.

namespace tandem {
namespace {

// Plain loops, which compilers turn into the vectors that they were told to use.
struct Floats {
  static constexpr uint64_t kTileRows = 4;
  static constexpr uint64_t kTilePanels = 1;
  static constexpr uint64_t kInt8Rows = 4;
  static constexpr uint64_t kInt8Panels = 1;
  static constexpr uint64_t kInt8RowsOfPanels = kInt8Rows;

  struct Codes {
    uint8_t v[4 * kPanelOutputs];
  };
  struct Ints {
    int32_t v[kPanelOutputs];
  };

  float v[kPanelOutputs];

  template <typename Function>
  static Floats Each(Function&& function) {
    Floats out;
    for (uint64_t i = 0; i < kPanelOutputs; ++i) out.v[i] = function(i);
    return out;
  }

  static Floats Zero() { return Broadcast(0); }
  static Floats Broadcast(float value) {
    return Each([&](uint64_t) { return value; });
  }
  static Floats Load(const float* from) {
    return Each([&](uint64_t i) { return from[i]; });
  }
  static Floats LoadF16(const uint16_t* from) {
    return Each([&](uint64_t i) { return HalfToFloat(from[i]); });
  }
  static Floats LoadBf16(const uint16_t* from) {
    return Each([&](uint64_t i) { return Bfloat16ToFloat(from[i]); });
  }
  static Floats LoadU8(const uint8_t* from) {
    return Each([&](uint64_t i) { return static_cast<float>(from[i]); });
  }
  void Store(float* to) const { std::copy_n(v, kPanelOutputs, to); }

  static Codes LoadCodes(const std::byte* from) {
    Codes codes;
    std::memcpy(codes.v, from, sizeof(codes.v));
    return codes;
  }
  static Codes LowHalves(Codes codes) {
    for (uint8_t& code : codes.v) code &= 0xF;
    return codes;
  }
  static Codes HighHalves(Codes codes) {
    for (uint8_t& code : codes.v) code >>= 4;
    return codes;
  }
  static Ints BroadcastInt(int32_t value) {
    Ints ints;
    std::fill_n(ints.v, kPanelOutputs, value);
    return ints;
  }
  static Floats ToFloats(const Ints& sum) {
    return Each([&](uint64_t i) { return static_cast<float>(sum.v[i]); });
  }
  static Ints DotU4(const Ints& sum, const Codes& w, int32_t x) { return DotU8(sum, w, x); }
  static Ints DotU8(Ints sum, const Codes& w, int32_t x) {
    int8_t inputs[4];
    std::memcpy(inputs, &x, sizeof(x));
    for (uint64_t i = 0; i < kPanelOutputs; ++i) {
      for (uint64_t k = 0; k < 4; ++k) sum.v[i] += w.v[i * 4 + k] * inputs[k];
    }
    return sum;
  }
  void StoreI8(int8_t* to) const {
    for (uint64_t i = 0; i < kPanelOutputs; ++i) {
      // Of NaN and what does not fit, any code: the scale is NaN then.
      to[i] = std::abs(v[i]) < 128 ? static_cast<int8_t>(std::lrint(v[i])) : int8_t{0};
    }
  }

  friend Floats operator+(const Floats& a, const Floats& b) {
    return Each([&](uint64_t i) { return a.v[i] + b.v[i]; });
  }
  friend Floats operator-(const Floats& a, const Floats& b) {
    return Each([&](uint64_t i) { return a.v[i] - b.v[i]; });
  }
  friend Floats operator*(const Floats& a, const Floats& b) {
    return Each([&](uint64_t i) { return a.v[i] * b.v[i]; });
  }
  friend Floats operator/(const Floats& a, const Floats& b) {
    return Each([&](uint64_t i) { return a.v[i] / b.v[i]; });
  }
  friend Floats MulAdd(const Floats& a, const Floats& b, const Floats& c) {
    return Each([&](uint64_t i) { return a.v[i] * b.v[i] + c.v[i]; });
  }
  friend Floats Round(const Floats& a) {
    return Each([&](uint64_t i) { return std::nearbyint(a.v[i]); });
  }
  friend Floats Max(const Floats& a, const Floats& b) {
    return Each([&](uint64_t i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  friend float Sum(const Floats& a) {
    float sum = 0;
    for (float value : a.v) sum += value;
    return sum;
  }
  friend void Sums(const std::array<Floats, 4>& a, float* to) {
    for (const Floats& one : a) *to++ = Sum(one);
  }
  friend void Largests(const std::array<Floats, 4>& a, float* to) {
    for (const Floats& one : a) *to++ = Largest(one);
  }
  friend float Largest(const Floats& a) { return *std::max_element(a.v, a.v + kPanelOutputs); }
  friend Floats Exp(const Floats& a) {
    return Each([&](uint64_t i) { return a.v[i] < kExpLowest ? 0 : std::exp(a.v[i]); });
  }
  friend void DecodeU8(const uint8_t* group, Floats (&w)[4]) {
    for (uint64_t k = 0; k < 4; ++k) {
      w[k] = Each([&](uint64_t i) { return static_cast<float>(group[i * 4 + k]); });
    }
  }
  friend void DecodeU4(const uint8_t* group, Floats (&w)[8]) {
    for (uint64_t k = 0; k < 4; ++k) {
      w[k] = Each([&](uint64_t i) { return static_cast<float>(group[i * 4 + k] & 0xF); });
      w[4 + k] = Each([&](uint64_t i) { return static_cast<float>(group[i * 4 + k] >> 4); });
    }
  }
};

}  // namespace
}  // namespace tandem

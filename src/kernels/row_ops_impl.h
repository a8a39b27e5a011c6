#pragma once

// Operations on single rows, over the vector of kernels/vector.h.

#include <algorithm>
#include <cmath>

#include "kernels/row_ops.h"
#include "kernels/vector.h"

namespace tandem {
namespace {

template <typename V>
void RmsNorm(const float* x, const float* weight, float epsilon, uint64_t size, float* y) {
  V squares = V::Zero();
  for (uint64_t i = 0; i < size; i += kPanelOutputs) {
    const V part = LoadPart<V>(x + i, std::min(kPanelOutputs, size - i));
    squares = MulAdd(part, part, squares);
  }
  const float mean = Sum(squares) / static_cast<float>(size);
  const V factor = V::Broadcast(1 / std::sqrt(mean + epsilon));
  for (uint64_t i = 0; i < size; i += kPanelOutputs) {
    const uint64_t count = std::min(kPanelOutputs, size - i);
    StorePart(LoadPart<V>(x + i, count) * factor * LoadPart<V>(weight + i, count), y + i, count);
  }
}

template <typename V>
void SiluGate(float* gate, const float* up, uint64_t size) {
  // Where e^-x would overflow, silu is as good as 0.
  const V lowest = V::Broadcast(kExpLowest);
  const V one = V::Broadcast(1);
  for (uint64_t i = 0; i < size; i += kPanelOutputs) {
    const uint64_t count = std::min(kPanelOutputs, size - i);
    const V x = LoadPart<V>(gate + i, count);
    const V silu = x / (one + Exp(V::Zero() - Max(lowest, x)));
    StorePart(silu * LoadPart<V>(up + i, count), gate + i, count);
  }
}

template <typename V>
void Add(const float* x, uint64_t size, float* y) {
  for (uint64_t i = 0; i < size; i += kPanelOutputs) {
    const uint64_t count = std::min(kPanelOutputs, size - i);
    StorePart(LoadPart<V>(y + i, count) + LoadPart<V>(x + i, count), y + i, count);
  }
}

template <typename V>
void Rotate(const float* x, const float* cos, const float* sin, uint64_t second, uint64_t pairs,
            float* out) {
  for (uint64_t i = 0; i < pairs; i += kPanelOutputs) {
    const uint64_t count = std::min(kPanelOutputs, pairs - i);
    const auto load = [&](const float* from) { return LoadPart<V>(from + i, count); };
    const V a = load(x);
    const V b = load(x + pairs);
    StorePart(a * load(cos) - b * load(sin), out + i, count);
    StorePart(b * load(cos + second) + a * load(sin + second), out + pairs + i, count);
  }
}

}  // namespace
}  // namespace tandem

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

// x / (1 + e^-a), where e^-a would overflow as good as 0.
template <typename V>
V TimesSigmoid(V x, V a) {
  return x / (V::Broadcast(1) + Exp(V::Zero() - Max(V::Broadcast(kExpLowest), a)));
}

// With the complement of erf by formula 7.1.26 of Abramowitz and Stegun, Handbook of Mathematical
// Functions: 1.5e-7 absolute.
template <typename V>
V Gelu(V x) {
  // From here on, the complement is 0 in f32.
  const V farthest = V::Broadcast(-20);
  const V distance = V::Zero() - Max(farthest, V::Zero() - Max(x, V::Zero() - x));
  const V z = distance * V::Broadcast(0.707106781F);
  const V one = V::Broadcast(1);
  const V t = one / MulAdd(z, V::Broadcast(0.3275911F), one);
  V sum = V::Broadcast(1.061405429F);
  for (float coefficient : {-1.453152027F, 1.421413741F, -0.284496736F, 0.254829592F}) {
    sum = MulAdd(sum, t, V::Broadcast(coefficient));
  }
  const V complement = sum * t * Exp(V::Zero() - z * z);
  return Max(V::Zero(), x) - distance * complement * V::Broadcast(0.5F);
}

template <typename V>
V GeluTanh(V x) {
  // (1 + tanh(a)) / 2 = 1 / (1 + e^-2a)
  const V slope =
      MulAdd(x * x, V::Broadcast(2 * 0.797884561F * 0.044715F), V::Broadcast(2 * 0.797884561F));
  return TimesSigmoid(x, x * slope);
}

template <typename V, V (*kActivate)(V)>
void GateWith(float* gate, const float* up, uint64_t size) {
  for (uint64_t i = 0; i < size; i += kPanelOutputs) {
    const uint64_t count = std::min(kPanelOutputs, size - i);
    const V activated = kActivate(LoadPart<V>(gate + i, count));
    StorePart(activated * LoadPart<V>(up + i, count), gate + i, count);
  }
}

template <typename V>
V Silu(V x) {
  return TimesSigmoid(x, x);
}

template <typename V>
void Gate(Activation activation, float* gate, const float* up, uint64_t size) {
  switch (activation) {
    case Activation::kSilu:
      return GateWith<V, &Silu<V>>(gate, up, size);
    case Activation::kGelu:
      return GateWith<V, &Gelu<V>>(gate, up, size);
    case Activation::kGeluTanh:
      return GateWith<V, &GeluTanh<V>>(gate, up, size);
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

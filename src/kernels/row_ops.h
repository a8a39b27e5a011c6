#pragma once

#include <cstdint>

namespace tandem {

// One row of a root mean square layer normalization (https://arxiv.org/abs/1910.07467), in f32:
//
//   y[i] = x[i] / sqrt(mean of x^2 + epsilon) * weight[i]
//
// y may be x.
using RmsNormKernel = void (*)(const float* x, const float* weight, float epsilon, uint64_t size,
                               float* y);

// The activations of gated linear units (https://arxiv.org/abs/2002.05202,
// https://arxiv.org/abs/1606.08415):
//
//   kSilu      x / (1 + e^-x)
//   kGelu      x (1 + erf(x / sqrt 2)) / 2
//   kGeluTanh  x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
enum class Activation { kSilu, kGelu, kGeluTanh };

// gate[i] = activation(gate[i]) * up[i].
using GateKernel = void (*)(Activation activation, float* gate, const float* up, uint64_t size);

// y[i] += x[i].
using AddKernel = void (*)(const float* x, uint64_t size, float* y);

// Turns pairs that are the halves of x [2 * pairs] (kernels/rotary_embedding.h):
//
//   out[i]         = x[i] * cos[i]                  - x[pairs + i] * sin[i]
//   out[pairs + i] = x[pairs + i] * cos[second + i] + x[i] * sin[second + i]
//
// out may not overlap x.
using RotateKernel = void (*)(const float* x, const float* cos, const float* sin, uint64_t second,
                              uint64_t pairs, float* out);

}  // namespace tandem

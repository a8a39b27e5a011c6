#pragma once

#include <optional>

#include "graph/matrix_pattern.h"

namespace tandem {

constexpr int64_t kLeastNBitsBlock = 16;  // inputs that share a scale

// The operators of com.microsoft that read a matrix of 4-bit or 8-bit codes in blocks of inputs:
// MatMulNBits and GatherBlockQuantized, of a matrix with the quantized axis last
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
std::optional<MatrixUse> MatchNBits(const Graph& graph, const Node& node);

}  // namespace tandem

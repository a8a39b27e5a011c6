#pragma once

#include "graph/attention_pattern.h"

namespace tandem {

// com.microsoft GroupQueryAttention
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md) as an Attention:
// with whole heads of f32, f16 or bf16; not with softcap, smooth softmax, local windows, biases,
// positions, sinks or quantized caches, and only with a past that is an input of the graph.
std::optional<AttentionUse> MatchGroupQueryAttention(const Walker& walker, const Node& node);

}  // namespace tandem

#pragma once

#include <optional>

#include "graph/graph.h"

namespace tandem {

// Rotary position embedding (kernels/rotary_embedding.h) of x [.., d]; cos and sin [.., d]
// broadcast to it.
struct RotaryEmbeddingUse {
  ValueId x = kNoValue;
  ValueId cos = kNoValue;
  ValueId sin = kNoValue;
};

// Scaled dot-product attention (kernels/attention.h): q [b, n, s, d], k and v [b, m, t, d] with n a
// multiple of m (grouped-query attention, https://arxiv.org/abs/2305.13245), and a bias that
// broadcasts to [b, n, s, t], or none. The result is [b, n, s, d].
struct AttentionUse {
  ValueId q = kNoValue;
  ValueId k = kNoValue;
  ValueId v = kNoValue;
  ValueId bias = kNoValue;
  float scale = 1;
};

// What exporters write for these in plain operators, recognized by the last node. The types are
// f32, f16 or bf16; n, m and d must be known.
//
//   Add(Mul(x, cos), Mul(Concat(Neg(second half of x), first half of x), sin))
//
//   MatMul(Softmax(Add(Mul(MatMul(q, Transpose(k)), scale), bias)), v)
//
// Halves are made by Split or Slice. The scale may be on q and k instead, and be a Div; Casts
// between float types are looked through; k and v may be repeated by Unsqueeze, Expand and Reshape.
std::optional<RotaryEmbeddingUse> MatchRotaryEmbedding(const Graph& graph, const GraphIndex& index,
                                                       const Node& node);
std::optional<AttentionUse> MatchAttention(const Graph& graph, const GraphIndex& index,
                                           const Node& node);

}  // namespace tandem

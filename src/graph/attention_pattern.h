#pragma once

#include <array>
#include <optional>
#include <vector>

#include "graph/attention_ports.h"
#include "graph/walker.h"

namespace tandem {

// Rotary position embedding (kernels/rotary_embedding.h) of x [.., d]; cos and sin [.., d]
// broadcast to it.
struct RotaryEmbeddingUse {
  ValueId x = kNoValue;
  ValueId cos = kNoValue;
  ValueId sin = kNoValue;
};

// A node "tandem.Attention" (device/ops/attention.h) in place of others.
struct AttentionUse {
  std::array<ValueId, AttentionPorts::kInputs> inputs{};    // by AttentionPorts::Input
  std::array<ValueId, AttentionPorts::kOutputs> outputs{};  // by AttentionPorts::Output
  std::vector<Attribute> attributes;

  AttentionUse() {
    inputs.fill(kNoValue);
    outputs.fill(kNoValue);
  }
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
//
// An attention takes in what surrounds it, as far as it is there: Transpose and Reshape that join
// the heads of the result, or split those of q, k and v; a rotary embedding of q and k; and Concats
// that put k and v behind the rows of a cache, or results that are the rows of a new one.
std::optional<RotaryEmbeddingUse> MatchRotaryEmbedding(const Walker& walker, const Node& node);
std::optional<AttentionUse> MatchAttention(const Walker& walker, const Node& node);

}  // namespace tandem

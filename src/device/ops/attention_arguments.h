#pragma once

#include <openvino/core/node.hpp>
#include <optional>
#include <vector>

#include "device/ops/attention_settings.h"
#include "device/ops/broadcast.h"
#include "kernels/rotary_embedding.h"

namespace tandem {

// Heads in a tensor [b, h, s, d] or [b, s, width], as strides in elements.
struct Heads {
  const float* data = nullptr;
  uint64_t tokens = 0;
  uint64_t batch_stride = 0;
  uint64_t head_stride = 0;
  uint64_t token_stride = 0;

  Heads() = default;
  Heads(const ov::Tensor& tensor, uint64_t size) : data(tensor.data<const float>()) {
    const ov::Shape& shape = tensor.get_shape();
    if (shape.size() == 4) {
      tokens = shape[2];
      token_stride = size;
      head_stride = tokens * size;
      batch_stride = shape[1] * head_stride;
    } else {
      tokens = shape[1];
      token_stride = shape[2];
      head_stride = size;
      batch_stride = tokens * token_stride;
    }
  }

  const float* Row(uint64_t batch, uint64_t head, uint64_t token) const {
    return data + batch * batch_stride + head * head_stride + token * token_stride;
  }
};

// The rotary embedding of queries and new keys; none without angles.
struct Rotation {
  std::optional<BroadcastRows> cos;  // [b, 1, s, d]
  std::optional<BroadcastRows> sin;
  const float* cos_table = nullptr;  // [positions][pairs]
  const float* sin_table = nullptr;
  uint64_t pairs = 0;
  bool is_interleaved = false;

  bool exists() const { return cos || cos_table != nullptr; }

  // `row`: of all tokens; `position`: of the token in its sequence.
  void Apply(const float* x, uint64_t row, uint64_t position, uint64_t size, float* out) const {
    if (cos) {
      RotateRow(x, cos->Row(row), sin->Row(row), size, out);
    } else {
      RotatePairs(x, cos_table + position * pairs, sin_table + position * pairs, pairs,
                  is_interleaved, size, out);
    }
  }
};

// What one run of an Attention computes with, checked: the inputs as they are, the caches bound.
struct AttentionArguments {
  uint64_t batches = 0;
  uint64_t heads = 0;
  uint64_t queries = 0;  // of a sequence
  uint64_t size = 0;     // of a head
  Heads q;
  // Of keys and of values: the new ones.
  Heads kv[2];
  uint64_t kv_heads[2] = {};
  bool has_caches = false;
  Tensor past[2];
  Tensor present[2];
  uint64_t past_rows = 0;
  uint64_t rows = 0;  // of the present
  uint64_t keys = 0;  // to attend to: those, or the new ones
  bool is_causal = false;
  std::vector<uint64_t> starts;  // by batch: rows before the new ones
  Rotation rotation;
  std::optional<BroadcastRows> bias;
};

// Throws Error(kInvalidArgument), naming `op`, when shapes or positions do not fit together, or not
// into the caches.
AttentionArguments ReadAttention(const ov::Node& op, const AttentionSettings& settings,
                                 const AttentionInputs& inputs);

}  // namespace tandem

#pragma once

#include <cstdint>

#include "base/data_type.h"

namespace tandem {

// Scaled dot-product attention (https://arxiv.org/abs/1706.03762) of heads that share their keys
// and values (grouped-query attention, https://arxiv.org/abs/2305.13245), in f32:
//
//   out[h][s] = softmax over t of (scale * q[h][s] . k[t] + bias[h][s][t])  times  v[t]
//
// Rows of `size` elements are contiguous; strides are in elements.
struct AttentionHeads {
  uint64_t heads = 1;
  uint64_t queries = 0;  // of a head
  uint64_t keys = 0;     // at least 1
  uint64_t size = 0;     // of a row of q, k, v and out
  float scale = 1;
  // 0: a query sees all keys. Else the first sees this many of them, each next one more.
  uint64_t first_sees = 0;
  const float* q = nullptr;
  uint64_t q_stride = 0;  // from query to query
  uint64_t q_head_stride = 0;
  DataType kv_type = DataType::kFloat32;  // or f16, bf16
  const void* k = nullptr;
  const void* v = nullptr;
  uint64_t k_stride = 0;
  uint64_t v_stride = 0;
  const float* bias = nullptr;    // null: none
  uint64_t bias_stride = 0;       // 0: one row for all queries
  uint64_t bias_head_stride = 0;  // 0: the same for all heads
  float* out = nullptr;
  uint64_t out_stride = 0;
  uint64_t out_head_stride = 0;

  // The row of bias of a query; null when there is none.
  const float* Bias(uint64_t head, uint64_t query) const {
    return bias == nullptr ? nullptr : bias + head * bias_head_stride + query * bias_stride;
  }
  // How many keys query `query` sees.
  uint64_t Sees(uint64_t query) const {
    return first_sees == 0 || first_sees + query > keys ? keys : first_sees + query;
  }
};

// Computes queries [first, last) of all heads. A row whose scores are all -infinity gives NaN, as
// everywhere. Keys at the ends may not be read when the bias leaves them no probability.
// Takes scratch memory of some keys * (heads * kAttentionBlock + 16) floats when there
// are more than a few queries.
using AttentionKernel = void (*)(const AttentionHeads& heads, uint64_t first, uint64_t last);

// Queries that are worth a task of their own.
constexpr uint64_t kAttentionBlock = 36;

}  // namespace tandem

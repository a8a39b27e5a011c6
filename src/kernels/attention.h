#pragma once

#include <cstdint>

namespace tandem {

// One head of scaled dot-product attention (https://arxiv.org/abs/1706.03762), in f32:
//
//   out[s] = softmax over t of (scale * q[s] . k[t] + bias[s][t])  times  v[t]
//
// Rows of `size` elements are contiguous; a stride leads from one row to the next, in elements.
struct AttentionHead {
  uint64_t queries = 0;
  uint64_t keys = 0;  // at least 1
  uint64_t size = 0;  // of a row of q, k, v and out
  float scale = 1;
  const float* q = nullptr;
  uint64_t q_stride = 0;
  const float* k = nullptr;
  const float* v = nullptr;
  uint64_t kv_stride = 0;
  const float* bias = nullptr;  // null: none
  uint64_t bias_stride = 0;     // 0: one row for all queries
  float* out = nullptr;
  uint64_t out_stride = 0;
};

// Computes queries [first, last). A row whose scores are all -infinity gives NaN, as everywhere.
// Takes scratch memory of some keys * (2 * size + 64) floats when there are more than a few
// queries.
using AttentionKernel = void (*)(const AttentionHead& head, uint64_t first, uint64_t last);

// Queries that are worth a task of their own.
constexpr uint64_t kAttentionBlock = 64;

}  // namespace tandem

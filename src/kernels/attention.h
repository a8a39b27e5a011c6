#pragma once

#include <cstdint>

#include "base/data_type.h"
#include "kernels/packed_matrix.h"

namespace tandem {

// More queries than these read keys and values from panels.
constexpr uint64_t kFewQueries = 4;
// Keys whose scores a few queries add up together.
constexpr uint64_t kKeysTogether = 4;

// Keys and values of a head in f32, made once for all blocks of queries:
//
//   keys    [keys / 16, rounded up, and one][size][16]   zeros behind the last key
//   values  [size / 16, rounded up][keys][16]            zeros behind the last element
struct KvPanels {
  const float* keys = nullptr;
  const float* values = nullptr;
  float key_square = 0;  // the largest sum of squares of a key; NaN if one is not finite

  static uint64_t KeyFloats(uint64_t keys, uint64_t size) {
    return (CeilDivide(keys, kPanelOutputs) + 1) * kPanelOutputs * size;
  }
  static uint64_t ValueFloats(uint64_t keys, uint64_t size) {
    return CeilDivide(size, kPanelOutputs) * kPanelOutputs * keys;
  }
};

// Keys or values of a head: rows of `size` elements of f32, f16 or bf16, `stride` elements apart.
struct KvSource {
  DataType type = DataType::kFloat32;
  const void* data = nullptr;
  uint64_t stride = 0;
};

// Makes the panels of KvPanels, of one kind; that of keys returns key_square.
using KeyPanelsKernel = float (*)(const KvSource& k, uint64_t keys, uint64_t size, float* panels);
using ValuePanelsKernel = void (*)(const KvSource& v, uint64_t keys, uint64_t size, float* panels);

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
  KvSource k;
  KvSource v;  // of the type of k
  // The same rows of the first `past_keys` keys once more, read in place of those above by a few
  // queries: k and v may not be in the cache. A multiple of kKeysTogether changes no bit of a
  // result.
  KvSource past_k;
  KvSource past_v;
  uint64_t past_keys = 0;
  KvPanels panels;                // of k and v; only for more than kFewQueries
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
// Takes scratch memory of some keys * heads * kAttentionBlock floats when there are more than a few
// queries.
using AttentionKernel = void (*)(const AttentionHeads& heads, uint64_t first, uint64_t last);

// Queries that are worth a task of their own.
constexpr uint64_t kAttentionBlock = 36;

}  // namespace tandem

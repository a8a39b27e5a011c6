#pragma once

#include <openvino/runtime/tensor.hpp>
#include <vector>

#include "device/kv_cache.h"

namespace tandem {

// What an input of Attention is; the numbers are those of topologies (graph/attention_ports.h).
// Shapes: b batches, s tokens, n heads of queries, m of keys and values, t rows of keys, d elements
// of a head. All f32 but the last three, i32.
enum class AttentionInput : int64_t {
  kQuery,    // [b, n, s, d], or [b, s, n * d]; [b, s, (n + 2 m) * d] with keys and values behind
  kKey,      // [b, m, s, d], or [b, s, m * d]
  kValue,    // likewise
  kBias,     // broadcast to [b, n, s, t]
  kCos,      // of the rotary embedding of queries and keys: [.., d] broadcast to [b, 1, s, d], or
  kSin,      //   with kLast, a table [positions, pairs]
  kLast,     // [b]: where the keys end, as their number less one. Queries are then causal
  kTotal,    // one element: the largest number of keys
  kAddress,  // addresses of KvCaches
};

struct AttentionSettings {
  std::vector<int64_t> inputs;  // what each input is, as AttentionInput
  float scale = 1;
  int64_t heads = 0;  // n and m; 0: as q and k say, of rank 4
  int64_t kv_heads = 0;
  bool merges_heads = false;    // the result is [b, s, n * d] instead of [b, n, s, d]
  bool is_interleaved = false;  // of the rotary embedding by table
  int64_t cache = -1;           // position of the keys' cache among the addresses; values are next
};

// What an input of Attention is, by AttentionInput; null: left out.
using AttentionInputs = std::vector<const ov::Tensor*>;

}  // namespace tandem

#pragma once

#include <cstddef>

namespace tandem {

// Inputs and outputs of a node "tandem.Attention" by position, as device/ops/attention.h explains
// them. Those that are left out are kNoValue. Past and present are in no topology: BindCaches
// (graph/kv_caches.h) takes them out.
struct AttentionPorts {
  enum Input : size_t {
    kQuery,
    kKey,
    kValue,
    kBias,
    kCos,
    kSin,
    kLast,
    kTotal,
    kAddress,  // of the caches; instead of the next two, in a topology
    kPastKey = kAddress,
    kPastValue,
    kInputs
  };
  enum Output : size_t { kResult, kPresentKey, kPresentValue, kOutputs };
};

}  // namespace tandem

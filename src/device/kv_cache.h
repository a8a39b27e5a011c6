#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "device/tensor.h"

namespace tandem {

// The keys or the values of one attention over the tokens so far, f32, f16 or bf16 [batch, heads,
// rows, size], in the caller's memory. An Attention operator finds it through its address, an
// input of the function: so that memory never passes through the device, is neither copied nor
// reallocated by it, and may be changed in place.
class KvCache {
 public:
  virtual ~KvCache() = default;

  // What earlier runs left; type kUndefined when there is none.
  virtual Tensor Past() = 0;

  // Memory for the past and the new rows, of `shape`: what the caller bound or asked for. It is
  // either that of Past(), of the same shape, or does not overlap it. Once in a run.
  virtual Tensor Present(const Shape& shape) = 0;
};

// A cache's address, as elements of an input of i32; and the cache at the address `index` of such
// an input.
using CacheAddress = std::array<int32_t, kAddressElements>;

inline CacheAddress AddressOf(KvCache& cache) {
  return std::bit_cast<CacheAddress>(&cache);
}

inline KvCache& CacheAt(const int32_t* addresses, size_t index) {
  CacheAddress address;
  std::copy_n(addresses + index * kAddressElements, kAddressElements, address.begin());
  return *std::bit_cast<KvCache*>(address);
}

}  // namespace tandem

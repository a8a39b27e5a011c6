#include "kernels/stream_copy.h"

#include <emmintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tandem {

void StreamCopy(const std::byte* from, std::byte* to, size_t size) {
  constexpr size_t kLine = 64;
  const size_t before = std::min(size, -reinterpret_cast<uintptr_t>(to) % kLine);
  std::memcpy(to, from, before);
  size_t at = before;
  for (; at + kLine <= size; at += kLine) {
    for (size_t i = 0; i < kLine; i += sizeof(__m128i)) {
      const auto* source = reinterpret_cast<const __m128i*>(from + at + i);
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + i), _mm_loadu_si128(source));
    }
  }
  std::memcpy(to + at, from + at, size - at);
  _mm_sfence();  // other threads see what was written once they see that this one is done
}

}  // namespace tandem

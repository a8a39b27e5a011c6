#pragma once

#include <chrono>
#include <cstdint>

namespace tandem {

// Nanoseconds of a clock that only goes forward; differences of it mean something.
inline int64_t NowNs() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Interval {
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
};

// From `start_ns` until now.
inline Interval Since(int64_t start_ns) {
  return {start_ns, NowNs() - start_ns};
}

}  // namespace tandem

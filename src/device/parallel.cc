#include "device/parallel.h"

#include <tbb/parallel_for.h>

namespace tandem {

void ParallelForTbb(uint64_t count, const std::function<void(uint64_t)>& body) {
  tbb::parallel_for(uint64_t{0}, count, body);
}

void ParallelRanges(uint64_t count, uint64_t grain,
                    const std::function<void(uint64_t, uint64_t)>& body) {
  if (count <= grain) return body(0, count);
  tbb::parallel_for(tbb::blocked_range<uint64_t>(0, count, grain),
                    [&](const auto& range) { body(range.begin(), range.end()); });
}

}  // namespace tandem

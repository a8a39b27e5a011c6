#pragma once

#include <cstdint>
#include <functional>

namespace tandem {

// kernels/packed_matrix.h's ParallelFor on the threads of the calling TBB arena: OpenVINO's, when
// an operator calls it.
void ParallelForTbb(uint64_t count, const std::function<void(uint64_t)>& body);

// Work below which a second thread costs more than it saves, some ten microseconds of one:
// multiply-adds, and elements that are read and written.
constexpr uint64_t kSerialMacs = 200'000;
constexpr uint64_t kSerialElements = 16 * 1024;

// Calls body(begin, end) for ranges that make up [0, count), each of at least `grain` (the last one
// perhaps less), on the threads of the calling TBB arena.
void ParallelRanges(uint64_t count, uint64_t grain,
                    const std::function<void(uint64_t, uint64_t)>& body);

}  // namespace tandem

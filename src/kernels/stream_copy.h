#pragma once

#include <cstddef>

namespace tandem {

// Copies `size` bytes that do not overlap, past the cache: for what nobody reads soon. Memory that
// is written as usual is first read into the cache, where it takes the place of something else.
void StreamCopy(const std::byte* from, std::byte* to, size_t size);

}  // namespace tandem

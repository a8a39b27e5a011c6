#include "kernels/stream_copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem {
namespace {

TEST(StreamCopy, CopiesAnySizeFromAndToAnywhere) {
  std::vector<std::byte> from(600);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  for (size_t size : {0, 1, 15, 63, 64, 65, 200, 400}) {
    for (size_t shift = 0; shift < 70; shift += 3) {
      std::vector<std::byte> to(600);
      StreamCopy(from.data() + shift / 2, to.data() + shift, size);
      for (size_t i = 0; i < to.size(); ++i) {
        const bool is_copied = i >= shift && i < shift + size;
        ASSERT_EQ(to[i], is_copied ? from[shift / 2 + i - shift] : std::byte{}) << size << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace tandem

#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tandem {
namespace {

TEST(Half, EveryValueIsThatOfTheCompiler) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half_bits = static_cast<uint16_t>(bits);
    _Float16 half;
    std::memcpy(&half, &half_bits, sizeof(half));
    const auto expected = static_cast<float>(half);
    const float found = HalfToFloat(half_bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(expected)) << bits;
    }
  }
}

TEST(Bfloat16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(Bfloat16ToFloat(0x3F80), 1.0F);
  EXPECT_EQ(Bfloat16ToFloat(0xC049), -3.140625F);
}

}  // namespace
}  // namespace tandem

#include "kernels/rotary_embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tandem {
namespace {

TEST(RotaryEmbedding, TurnsEachPairByItsAngle) {
  const std::vector<float> x{3, 5, 4, 12};
  const float angle = 0.3F;
  const std::vector<float> cos{std::cos(angle), 1, std::cos(angle), 1};
  const std::vector<float> sin{std::sin(angle), 0, std::sin(angle), 0};
  std::vector<float> out(4);
  RotateRow(x.data(), cos.data(), sin.data(), 4, out.data());
  EXPECT_FLOAT_EQ(out[0], 3 * std::cos(angle) - 4 * std::sin(angle));
  EXPECT_FLOAT_EQ(out[2], 4 * std::cos(angle) + 3 * std::sin(angle));
  EXPECT_EQ(out[1], 5);
  EXPECT_EQ(out[3], 12);
}

}  // namespace
}  // namespace tandem

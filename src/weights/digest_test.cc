#include "weights/digest.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Digest, IsXxh3OfTheBytes) {
  // XXH3_128bits of nothing, from the published test vectors (seed 0).
  EXPECT_EQ(DigestOf({}).Hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(DigestBuilder, DependsOnWhereAPartEnds) {
  const Digest ab_c = DigestBuilder().Add("ab").Add("c").Finish();
  EXPECT_EQ(ab_c, DigestBuilder().Add("ab").Add("c").Finish());
  EXPECT_NE(ab_c, DigestBuilder().Add("a").Add("bc").Finish());
  EXPECT_NE(ab_c, DigestBuilder().Add("abc").Finish());
}

}  // namespace
}  // namespace tandem

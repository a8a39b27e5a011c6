#include "base/strings.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace tandem {
namespace {

constexpr std::array<std::string_view, 3> kNames{"precision", "num_of_threads", "num_streams"};

TEST(NearestName, FindsASlip) {
  EXPECT_EQ(NearestName("percision", kNames), "precision");
  EXPECT_EQ(NearestName("Num_Threads", kNames), "num_of_threads");
  EXPECT_EQ(NearestName("num_of_thread", kNames), "num_of_threads");
}

TEST(NearestName, IsEmptyForAWordThatIsFarFromAll) {
  EXPECT_EQ(NearestName("layout", kNames), "");
}

TEST(Strings, JoinAndShapeText) {
  EXPECT_EQ(Join(std::vector<int>{1, 2, 3}, ", "), "1, 2, 3");
  EXPECT_EQ(ShapeText(std::vector<int64_t>{1, -1, 64}), "[1,?,64]");
  EXPECT_EQ(ShapeText({}), "[]");
}

}  // namespace
}  // namespace tandem

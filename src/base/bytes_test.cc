#include "base/bytes.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

TEST(Bytes, TensorBytesOfWholeAndPackedTypes) {
  EXPECT_EQ(TensorBytes(DataType::kFloat32, {2, 3}), 24u);
  EXPECT_EQ(TensorBytes(DataType::kBfloat16, {}), 2u);
  EXPECT_EQ(TensorBytes(DataType::kInt4, {3, 3}), 5u);
  EXPECT_EQ(TensorBytes(DataType::kUint4, {0, 7}), 0u);
}

TEST(Bytes, OverflowIsAnErrorAndNotASmallNumber) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_TANDEM_ERROR(TensorBytes(DataType::kFloat32, {huge, huge}), ErrorCode::kInvalidModel,
                      "overflows");
  EXPECT_TANDEM_ERROR(CheckedAdd(UINT64_MAX, 1), ErrorCode::kInvalidModel, "overflows");
}

TEST(Bytes, UnknownDimensionsHaveNoElementCount) {
  EXPECT_TANDEM_ERROR(ElementCount({1, -1}), ErrorCode::kInvalidModel, "[1,?]");
}

TEST(Bytes, StringsHaveNoSize) {
  EXPECT_TANDEM_ERROR(TensorBytes(DataType::kString, {1}), ErrorCode::kUnsupported, "string");
}

TEST(Bytes, FormatBytesPicksAUnit) {
  EXPECT_EQ(FormatBytes(17), "17 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(uint64_t{3} << 30), "3.0 GiB");
}

}  // namespace
}  // namespace tandem

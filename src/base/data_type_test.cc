#include "base/data_type.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(DataType, NumbersAreThoseOfOnnx) {
  EXPECT_EQ(DataTypeFromOnnx(1), DataType::kFloat32);
  EXPECT_EQ(DataTypeFromOnnx(10), DataType::kFloat16);
  EXPECT_EQ(DataTypeFromOnnx(21), DataType::kUint4);
}

TEST(DataType, TypesThatTandemLeavesAloneAreUndefined) {
  EXPECT_EQ(DataTypeFromOnnx(14), DataType::kUndefined);  // complex64
  EXPECT_EQ(DataTypeFromOnnx(17), DataType::kUndefined);  // float8e4m3fn
  EXPECT_EQ(DataTypeFromOnnx(-3), DataType::kUndefined);
}

TEST(DataType, WidthAndName) {
  EXPECT_EQ(BitWidth(DataType::kInt4), 4);
  EXPECT_EQ(BitWidth(DataType::kString), 0);
  EXPECT_EQ(Name(DataType::kBfloat16), "bf16");
}

}  // namespace
}  // namespace tandem

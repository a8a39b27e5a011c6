#include "weights/weight.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

class WeightInFileTest : public ::testing::Test {
 protected:
  Weight At(uint64_t offset, uint64_t length) {
    return WeightInFile("blk.0.w", DataType::kFloat32, {2, 4}, file_, offset, length);
  }

  TempDir dir_;
  std::shared_ptr<const MappedFile> file_ =
      MappedFile::Open(dir_.Write("w.data", std::string(40, 'x')));
};

TEST_F(WeightInFileTest, TakesAnyOffset) {
  const Weight weight = At(7, 32);
  EXPECT_EQ(weight.bytes.data(), file_->bytes().data() + 7);
  EXPECT_EQ(weight.bytes.size(), 32u);
}

TEST_F(WeightInFileTest, NamesAllWhenTheFileIsTooShort) {
  EXPECT_TANDEM_ERROR(At(9, 32), ErrorCode::kInvalidModel, "blk.0.w", "w.data", "has 40 bytes",
                      "at least 41");
  EXPECT_TANDEM_ERROR(At(uint64_t{1} << 63, 32), ErrorCode::kInvalidModel, "has 40 bytes");
}

TEST_F(WeightInFileTest, NamesAllWhenTheLengthDoesNotFitTheShape) {
  EXPECT_TANDEM_ERROR(At(0, 16), ErrorCode::kInvalidModel, "blk.0.w", "found 16 bytes",
                      "expected 32", "f32[2,4]");
}

TEST(WeightInMemoryTest, ChecksTheLength) {
  const std::vector<float> values(3);
  EXPECT_TANDEM_ERROR(WeightInMemory("w", DataType::kFloat32, {4}, AsBytes(values)),
                      ErrorCode::kInvalidModel, "found 12 bytes", "expected 16");
}

}  // namespace
}  // namespace tandem

#include "base/path_guard.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace fs = std::filesystem;

namespace tandem {
namespace {

class PathGuard : public ::testing::Test {
 protected:
  fs::path Resolve(const std::string& name, const fs::path& model = {}) {
    return ResolveReference(dir_.path() / "model", name, model, "weight 'w'");
  }

  TempDir dir_;
  fs::path inside_ = dir_.Write("model/data/w.data", "x");
  fs::path outside_ = dir_.Write("secret", "x");
};

TEST_F(PathGuard, FindsAFileBelowTheModel) {
  EXPECT_EQ(Resolve("data/w.data"), fs::canonical(inside_));
}

TEST_F(PathGuard, FindsAFileWithANameThatIsNotAscii) {
  const fs::path file = dir_.Write("model/gewichte-\xC3\xBC.data", "x");
  EXPECT_EQ(Resolve("gewichte-\xC3\xBC.data"), fs::canonical(file));
}

TEST_F(PathGuard, RefusesNamesThatLeave) {
  EXPECT_TANDEM_ERROR(Resolve("../secret"), ErrorCode::kInvalidModel, "weight 'w'", "../secret");
  EXPECT_TANDEM_ERROR(Resolve("data/../../secret"), ErrorCode::kInvalidModel, "'..'");
  EXPECT_TANDEM_ERROR(Resolve(outside_.string()), ErrorCode::kInvalidModel, "absolute");
  EXPECT_TANDEM_ERROR(Resolve(""), ErrorCode::kInvalidModel, "empty");
  EXPECT_TANDEM_ERROR(Resolve(std::string("a\0b", 3)), ErrorCode::kInvalidModel, "zero byte");
}

TEST_F(PathGuard, RefusesALinkThatLeaves) {
  fs::create_symlink(outside_, dir_.path() / "model/link");
  EXPECT_TANDEM_ERROR(Resolve("link"), ErrorCode::kInvalidModel, "outside", "secret");
  fs::create_directory_symlink(dir_.path(), dir_.path() / "model/up");
  EXPECT_TANDEM_ERROR(Resolve("up/secret"), ErrorCode::kInvalidModel, "outside");
}

TEST_F(PathGuard, AcceptsALinkThatStays) {
  fs::create_symlink("data/w.data", dir_.path() / "model/link");
  EXPECT_EQ(Resolve("link"), fs::canonical(inside_));
}

TEST_F(PathGuard, AcceptsTheLayoutOfAHuggingFaceCache) {
  const fs::path blob = dir_.Write("blobs/1234", "data");
  fs::create_symlink(dir_.Write("blobs/5678", "model"), dir_.path() / "model/model.onnx");
  fs::create_symlink(blob, dir_.path() / "model/model.onnx_data");
  EXPECT_EQ(Resolve("model.onnx_data", dir_.path() / "model/model.onnx"), fs::canonical(blob));
}

TEST_F(PathGuard, RefusesWhatIsNoRegularFile) {
  EXPECT_TANDEM_ERROR(Resolve("data"), ErrorCode::kIo, "not a regular file");
  EXPECT_TANDEM_ERROR(Resolve("none.data"), ErrorCode::kNotFound, "none.data");
}

}  // namespace
}  // namespace tandem

#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

std::string Text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(MappedFile, HoldsTheContentThatTheFileHadWhenItWasOpened) {
  TempDir dir;
  const auto path = dir.Write("weights.data", "old content");
  const auto mapped = MappedFile::Open(path);
  WriteFileAtomically(path, "new");
  EXPECT_EQ(Text(mapped->bytes()), "old content");
  EXPECT_EQ(ReadTextFile(path), "new");
}

TEST(MappedFile, AnEmptyFileIsAnEmptyRange) {
  TempDir dir;
  EXPECT_TRUE(MappedFile::Open(dir.Write("empty", ""))->bytes().empty());
}

TEST(MappedFile, SaysWhichFileIsMissing) {
  TempDir dir;
  EXPECT_TANDEM_ERROR(MappedFile::Open(dir.path() / "none.data"), ErrorCode::kNotFound,
                      "none.data");
}

TEST(MappedFile, RefusesAFolderAndAFifo) {
  TempDir dir;
  EXPECT_TANDEM_ERROR(MappedFile::Open(dir.path()), ErrorCode::kIo, "not a regular file");
  const auto fifo = dir.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TANDEM_ERROR(MappedFile::Open(fifo), ErrorCode::kIo, "not a regular file");
}

TEST(FileIdentity, IsTheSameByAnyNameAndChangesWithTheContent) {
  TempDir dir;
  const auto path = dir.Write("a", "12345678");
  std::filesystem::create_hard_link(path, dir.path() / "b");
  const FileIdentity first = IdentityOf(path);
  EXPECT_EQ(first, IdentityOf(dir.path() / "b"));
  WriteFileAtomically(path, "12345678");
  EXPECT_NE(first, IdentityOf(path));
}

TEST(FileIdentity, ChangesWithTheContentWhateverTimeTheFileIsGiven) {
  TempDir dir;
  const auto path = dir.Write("a", "12345678");
  const auto time = std::filesystem::last_write_time(path);
  const FileIdentity first = IdentityOf(path);
  dir.Write("a", "87654321");
  std::filesystem::last_write_time(path, time);
  EXPECT_EQ(first.mtime_ns, IdentityOf(path).mtime_ns);
  EXPECT_NE(first, IdentityOf(path));
}

TEST(AtomicFile, GivesTheTimeThatIsAsked) {
  TempDir dir;
  const auto path = dir.path() / "a";
  constexpr int64_t kTime = 1'500'000'000'000'000'000;
  AtomicFile file(path);
  file.Write(std::as_bytes(std::span("text", 4)));
  EXPECT_FALSE(std::filesystem::exists(path));
  file.Commit(kTime);
  EXPECT_EQ(IdentityOf(path).mtime_ns, kTime);
  EXPECT_EQ(ReadTextFile(path), "text");
}

TEST(MarkAsUsed, KeepsContentAndTimeOfModification) {
  TempDir dir;
  const auto path = dir.Write("a", "12345678");
  MarkAsUsed(path);
  const int64_t recent = LastUse(path);
  MarkAsUsed(path);
  EXPECT_EQ(LastUse(path), recent) << "said within the hour";
  const FileIdentity before = IdentityOf(path);
  const struct timespec old{1'000'000'000, 0};
  const struct timespec times[2]{old, {0, UTIME_OMIT}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  MarkAsUsed(path);
  EXPECT_GT(LastUse(path), old.tv_sec * 1'000'000'000);
  EXPECT_EQ(IdentityOf(path).mtime_ns, before.mtime_ns);
  EXPECT_TANDEM_ERROR(LastUse(dir.path() / "none"), ErrorCode::kNotFound, "none");
}

TEST(WriteFileAtomically, LeavesTheOldFileWhenItFails) {
  TempDir dir;
  const auto folder = dir.path() / "taken";
  std::filesystem::create_directories(folder / "inside");
  EXPECT_TANDEM_ERROR(WriteFileAtomically(folder, "x"), ErrorCode::kIo, "taken");
  EXPECT_TRUE(std::filesystem::exists(folder / "inside"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(WriteFileAtomically, ReadersNeverSeeAPart) {
  TempDir dir;
  const std::string a(1 << 20, 'a'), b(1 << 20, 'b');
  const auto path = dir.Write("file", a);
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) WriteFileAtomically(path, i % 2 == 0 ? b : a);
  });
  for (int i = 0; i < 100; ++i) {
    const std::string seen = ReadTextFile(path);
    EXPECT_TRUE(seen == a || seen == b);
  }
  writer.join();
}

}  // namespace
}  // namespace tandem

#include "bundle/bundle.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "bundle/bundle_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

class BundleTest : public ::testing::Test {
 protected:
  BundleTest() : large_(100'000), small_(7) {
    std::iota(large_.begin(), large_.end(), 1);
    std::iota(small_.begin(), small_.end(), 100);
  }

  BundleWriter Writer() {
    BundleWriter writer;
    writer.Add("weight/small", DataType::kUint8, {7}, AsBytes(small_), nullptr);
    writer.Add("weight/large", DataType::kUint32, {100, 1000}, AsBytes(large_), nullptr);
    writer.Add("weight/empty", DataType::kFloat32, {0, 3}, {}, nullptr);
    writer.SetMetadata("tandem.version", "1.2.3");
    return writer;
  }

  static std::shared_ptr<const Bundle> Open(const std::filesystem::path& path) {
    return Bundle::Open(MappedFile::Open(path));
  }

  std::shared_ptr<const Bundle> FromBytes(const std::string& bytes) {
    return Bundle::FromMemory("from memory", std::as_bytes(std::span(bytes)), nullptr);
  }

  // Reads everything that a program would, as `verify` says.
  static void ReadAll(const Bundle& bundle, Verify verify) {
    for (const auto& [name, tensor] : bundle.tensors()) bundle.GetVerified(name, verify);
  }

  TempDir dir_;
  std::vector<uint32_t> large_;
  std::vector<uint8_t> small_;
};

TEST_F(BundleTest, WhatIsWrittenIsRead) {
  const auto path = dir_.path() / "a.safetensors";
  Writer().Write(path);
  const auto bundle = Open(path);
  EXPECT_EQ(bundle->Metadata("tandem.version"), "1.2.3");
  EXPECT_EQ(bundle->Metadata("nothing"), "");
  ASSERT_EQ(bundle->tensors().size(), 3u) << "without what fills gaps";
  const BundleTensor& large = bundle->Get("weight/large");
  EXPECT_EQ(large.type, DataType::kUint32);
  EXPECT_EQ(large.shape, (Shape{100, 1000}));
  EXPECT_EQ(0, std::memcmp(large.bytes.data(), large_.data(), large.bytes.size()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.bytes.data()) % 4096, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bundle->Get("weight/small").bytes.data()) % 64, 0u);
  EXPECT_EQ(bundle->Get("weight/empty").shape, (Shape{0, 3}));
  ReadAll(*bundle, Verify::kFull);
  EXPECT_EQ(Writer().size(), std::filesystem::file_size(path));
  EXPECT_EQ(Writer().ToBytes().size(), std::filesystem::file_size(path));
}

TEST_F(BundleTest, AFileGrowsByBeingWrittenAnew) {
  const auto path = dir_.path() / "a.safetensors";
  Writer().Write(path);
  const auto before = Open(path);
  BundleWriter writer;
  writer.AddAll(before);
  writer.Add("weight/more", DataType::kUint8, {7}, AsBytes(small_), nullptr);
  writer.Add("weight/small", DataType::kUint8, {0}, {}, nullptr);
  writer.Write(path);
  const auto after = Open(path);
  EXPECT_EQ(after->tensors().size(), 4u);
  EXPECT_EQ(after->Get("weight/small").bytes.size(), 7u) << "the name was taken";
  ReadAll(*after, Verify::kFull);
  ReadAll(*before, Verify::kFull);
}

TEST_F(BundleTest, DamageIsNotPassedOn) {
  const std::string bytes = Writer().ToBytes();
  std::string damaged = bytes;
  damaged[damaged.size() - 40] ^= 1;
  BundleWriter writer;
  EXPECT_TANDEM_ERROR(writer.AddAll(FromBytes(damaged)), ErrorCode::kInvalidModel, "is damaged");
}

TEST_F(BundleTest, ElementsOfFourBitsAreStoredAsBytes) {
  BundleWriter writer;
  writer.Add("weight/q", DataType::kInt4, {7, 2}, AsBytes(small_), nullptr);
  const std::string bytes = writer.ToBytes();
  EXPECT_EQ(FromBytes(bytes)->Get("weight/q").type, DataType::kUint8);
  EXPECT_EQ(FromBytes(bytes)->Get("weight/q").shape, Shape{7});
}

TEST_F(BundleTest, AMissingTensorIsNamed) {
  const std::string bytes = Writer().ToBytes();
  EXPECT_TANDEM_ERROR(FromBytes(bytes)->Get("weight/none"), ErrorCode::kInvalidModel,
                      "'weight/none'");
}

TEST_F(BundleTest, AnyFlippedByteIsFoundOrFills) {
  const std::string original = Writer().ToBytes();
  const uint64_t header = original.find("    ");  // what fills the header up
  size_t harmless = 0;
  for (size_t at = 0; at < original.size(); at += at < header + 200 ? 1 : 997) {
    std::string bytes = original;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    try {
      const auto bundle = FromBytes(bytes);
      ReadAll(*bundle, Verify::kAuto);
      EXPECT_EQ(0, std::memcmp(bundle->Get("weight/large").bytes.data(), large_.data(), 400'000))
          << at;
      EXPECT_EQ(0, std::memcmp(bundle->Get("weight/small").bytes.data(), small_.data(), 7)) << at;
      ++harmless;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidModel) << error.what();
    }
  }
  EXPECT_LT(harmless, 5u) << "only bytes between tensors may change unseen";
}

TEST_F(BundleTest, ATruncatedOrLongerFileIsAnError) {
  const std::string original = Writer().ToBytes();
  for (size_t size : {size_t{0}, size_t{7}, size_t{8}, size_t{4000}, original.size() - 1}) {
    const std::string bytes = original.substr(0, size);
    EXPECT_TANDEM_ERROR(FromBytes(bytes), ErrorCode::kInvalidModel, "bundle from memory");
  }
  const std::string longer = original + "x";
  EXPECT_TANDEM_ERROR(FromBytes(longer), ErrorCode::kInvalidModel, "expected 4");
}

TEST_F(BundleTest, AnotherVersionIsRefused) {
  std::string bytes = Writer().ToBytes();
  bytes.replace(bytes.find("\"1.0\""), 5, "\"2.0\"");
  EXPECT_TANDEM_ERROR(FromBytes(bytes), ErrorCode::kInvalidModel,
                      "found format '2.0', expected 1.x");
}

TEST_F(BundleTest, AFileOfAnotherKindIsRefused) {
  EXPECT_TANDEM_ERROR(Open(dir_.Write("a", std::string(5000, 'x'))), ErrorCode::kInvalidModel,
                      "expected at most");
  std::string safetensors("\x02\0\0\0\0\0\0\0{}", 10);
  EXPECT_TANDEM_ERROR(FromBytes(safetensors), ErrorCode::kInvalidModel, "__metadata__");
}

// Changes a byte of the large tensor.
void Damage(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('x');
}

TEST_F(BundleTest, DamageIsFoundUnlessVerifyIsOff) {
  const auto path = dir_.path() / "a.safetensors";
  BundleWriter writer;
  writer.Add("weight/large", DataType::kUint32, {100'000}, AsBytes(large_), nullptr);
  writer.Write(path);
  const auto written = std::filesystem::last_write_time(path);
  Damage(path);

  EXPECT_TANDEM_ERROR(ReadAll(*Open(path), Verify::kAuto), ErrorCode::kInvalidModel, path.c_str(),
                      "'weight/large' is damaged");
  ReadAll(*Open(path), Verify::kOff);
  std::filesystem::last_write_time(path, written);
  ReadAll(*Open(path), Verify::kAuto);  // trusts the time
  EXPECT_TANDEM_ERROR(ReadAll(*Open(path), Verify::kFull), ErrorCode::kInvalidModel, "is damaged");
}

TEST_F(BundleTest, AFullDiskLeavesTheOldFile) {
  const auto path = dir_.path() / "a.safetensors";
  Writer().Write(path);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{200'000, limit.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  BundleWriter writer = Writer();
  writer.Add("weight/more", DataType::kUint8, {7}, AsBytes(small_), nullptr);
  EXPECT_TANDEM_ERROR(writer.Write(path), ErrorCode::kIo, "cannot write");
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(Open(path)->tensors().size(), 3u);
  const std::filesystem::directory_iterator files(dir_.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "nothing is left behind";
}

TEST_F(BundleTest, WhatAKilledWriterLeftIsRemoved) {
  const auto path = dir_.path() / "a.safetensors";
  dir_.Write("a.safetensors.Ab12Cd", "half");
  dir_.Write("a.safetensors.other", "kept? six characters only");
  dir_.Write("b.safetensors.Ab12Cd", "another's");
  Writer().Write(path);
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "a.safetensors.Ab12Cd"));
  EXPECT_TRUE(std::filesystem::exists(dir_.path() / "b.safetensors.Ab12Cd"));
}

TEST_F(BundleTest, AWriterThatIsKilledLeavesTheOldOrTheNewFile) {
  const auto path = dir_.path() / "a.safetensors";
  Writer().Write(path);
  for (int round = 0; round < 50; ++round) {
    const pid_t writer = ::fork();
    if (writer == 0) {
      for (int i = 0;; ++i) {
        const FolderLock lock(dir_.path());
        BundleWriter more;
        more.AddAll(Open(path));
        more.Add("weight/" + std::to_string(round), DataType::kUint32, {100'000}, AsBytes(large_),
                 nullptr);
        more.Write(path);
        if (i == 1) ::pause();  // it has written all it has
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    ReadAll(*Open(path), Verify::kFull);
    const FolderLock lock(dir_.path());  // it went with its holder
  }
  BundleWriter last;
  last.AddAll(Open(path));
  last.Write(path);
  const std::filesystem::directory_iterator files(dir_.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "nothing is left behind";
}

TEST_F(BundleTest, AFolderLockKeepsOthersWaiting) {
  std::atomic<bool> second_has_it = false;
  std::thread second;
  {
    const FolderLock first(dir_.path());
    second = std::thread([&] {
      const FolderLock lock(dir_.path());
      second_has_it = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(second_has_it);
  }
  second.join();
  EXPECT_TRUE(second_has_it);
  EXPECT_TANDEM_ERROR(FolderLock(dir_.path() / "none"), ErrorCode::kNotFound, "none");
}

}  // namespace
}  // namespace tandem

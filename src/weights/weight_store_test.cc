#include "weights/weight_store.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

class WeightStoreTest : public ::testing::Test {
 protected:
  Weight Whole(const std::string& name, const std::filesystem::path& path) {
    auto file = store_.Open(path);
    const uint64_t size = file->bytes().size();
    return WeightInFile(name, DataType::kUint8, {static_cast<int64_t>(size)}, file, 0, size);
  }

  TempDir dir_;
  WeightStore store_;
};

TEST_F(WeightStoreTest, OneFileIsMappedOnceByAnyName) {
  const auto path = dir_.Write("a.data", "content");
  std::filesystem::create_hard_link(path, dir_.path() / "b.data");
  const auto first = store_.Open(path);
  EXPECT_EQ(first, store_.Open(path));
  EXPECT_EQ(first, store_.Open(dir_.path() / "b.data"));
  EXPECT_EQ(store_.MappedFiles().size(), 1u);
}

TEST_F(WeightStoreTest, AMappingGoesWithItsLastUser) {
  const auto path = dir_.Write("a.data", "content");
  store_.Open(path);
  EXPECT_TRUE(store_.MappedFiles().empty());
}

TEST_F(WeightStoreTest, AReplacedFileIsAnotherFile) {
  const auto path = dir_.Write("a.data", "content 1");
  const Weight old_weight = Whole("w", path);
  WriteFileAtomically(path, "content 2");
  const Weight new_weight = Whole("w", path);
  EXPECT_NE(old_weight.file, new_weight.file);
  EXPECT_NE(store_.KeyOf(old_weight), store_.KeyOf(new_weight));
}

TEST_F(WeightStoreTest, TheKeyIsTheContentWhateverNameAndPlace) {
  const Weight one = Whole("one", dir_.Write("a.data", "same"));
  const Weight two = Whole("two", dir_.Write("b.data", "same"));
  const std::string text = "same";
  const Weight three =
      WeightInMemory("three", DataType::kUint8, {4}, std::as_bytes(std::span(text)));
  EXPECT_EQ(store_.KeyOf(one), store_.KeyOf(two));
  EXPECT_EQ(store_.KeyOf(one), store_.KeyOf(three));
  EXPECT_NE(store_.KeyOf(one), store_.KeyOf(Whole("other", dir_.Write("c.data", "else"))));
}

TEST_F(WeightStoreTest, TypeAndShapeArePartOfTheKey) {
  const auto file = store_.Open(dir_.Write("a.data", "12345678"));
  const auto key = [&](DataType type, Shape shape) {
    return store_.KeyOf(WeightInFile("w", type, std::move(shape), file, 0, 8));
  };
  EXPECT_NE(key(DataType::kUint8, {8}), key(DataType::kUint8, {2, 4}));
  EXPECT_NE(key(DataType::kUint8, {8}), key(DataType::kInt8, {8}));
}

TEST_F(WeightStoreTest, IsSafeFromSeveralThreads) {
  const auto path = dir_.Write("a.data", std::string(1 << 16, 'x'));
  std::vector<WeightKey> keys(8);
  std::vector<std::thread> threads;
  for (WeightKey& key : keys) {
    threads.emplace_back([&] { key = store_.KeyOf(Whole("w", path)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const WeightKey& key : keys) EXPECT_EQ(key, keys.front());
}

}  // namespace
}  // namespace tandem

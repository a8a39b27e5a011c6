#include "base/weak_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tandem {
namespace {

TEST(WeakCache, MakesAThingOnceWhileItIsHeld) {
  WeakCache<int, int> cache;
  int made = 0;
  const auto make = [&] { return std::make_shared<int>(++made); };
  auto first = cache.Get(7, make);
  EXPECT_EQ(first, cache.Get(7, make));
  EXPECT_EQ(first, cache.Find(7));
  EXPECT_NE(first, cache.Get(8, make));
  first.reset();
  EXPECT_EQ(cache.Find(7), nullptr);
  EXPECT_EQ(*cache.Get(7, make), 3);
}

TEST(WeakCache, AFailureIsNotRemembered) {
  WeakCache<int, int> cache;
  EXPECT_THROW(cache.Get(1, []() -> std::shared_ptr<int> { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(*cache.Get(1, [] { return std::make_shared<int>(5); }), 5);
}

TEST(WeakCache, ConcurrentFirstCallsMakeOneThing) {
  WeakCache<int, int> cache;
  std::atomic<int> made = 0;
  std::vector<std::shared_ptr<int>> got(8);
  std::vector<std::thread> threads;
  for (auto& mine : got) {
    threads.emplace_back([&] {
      mine = cache.Get(1, [&] {
        ++made;
        std::this_thread::yield();
        return std::make_shared<int>(1);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  for (const auto& mine : got) EXPECT_EQ(mine, got.front());
}

TEST(WeakCache, ForgetsManyDeadThingsAndKeepsTheLiving) {
  WeakCache<int, int> cache;
  const auto kept = cache.Get(-1, [] { return std::make_shared<int>(0); });
  for (int i = 0; i < 1000; ++i) cache.Get(i, [] { return std::make_shared<int>(0); });
  EXPECT_EQ(cache.Find(-1), kept);
  EXPECT_EQ(cache.Find(999), nullptr);
}

}  // namespace
}  // namespace tandem

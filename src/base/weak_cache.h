#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

namespace tandem {

// Things that are made once and shared while somebody holds them: the cache itself holds them
// weakly. Safe from any thread; two who ask for one key at the same time get one thing, the second
// waits for the first. `Key` has std::hash.
template <typename Key, typename T>
class WeakCache {
 public:
  // The thing with this key: the one that is alive, else what `make()` returns, a
  // std::shared_ptr<T>. An exception of `make` goes to its caller; the next one to ask makes the
  // thing again.
  template <typename Make>
  std::shared_ptr<T> Get(const Key& key, Make&& make) {
    const std::shared_ptr<Entry> entry = EntryOf(key);
    const std::lock_guard lock(entry->making);
    if (auto alive = entry->thing.lock()) return alive;
    std::shared_ptr<T> made = make();
    entry->thing = made;
    return made;
  }

  // The thing with this key, if it is alive.
  std::shared_ptr<T> Find(const Key& key) const {
    std::shared_ptr<Entry> entry;
    {
      const std::lock_guard lock(mutex_);
      const auto found = entries_.find(key);
      if (found == entries_.end()) return nullptr;
      entry = found->second;
    }
    const std::lock_guard lock(entry->making);
    return entry->thing.lock();
  }

 private:
  struct Entry {
    std::mutex making;
    std::weak_ptr<T> thing;  // guarded by making
  };

  std::shared_ptr<Entry> EntryOf(const Key& key) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= prune_at_) Prune();
    std::shared_ptr<Entry>& entry = entries_[key];
    if (!entry) entry = std::make_shared<Entry>();
    return entry;
  }

  // Forgets what nobody holds or makes. Under mutex_.
  void Prune() {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const bool is_unused = entry->second.use_count() == 1 && entry->second->thing.expired();
      entry = is_unused ? entries_.erase(entry) : std::next(entry);
    }
    prune_at_ = 2 * entries_.size() + kSmall;
  }

  static constexpr size_t kSmall = 64;

  mutable std::mutex mutex_;
  // Both guarded by mutex_.
  std::unordered_map<Key, std::shared_ptr<Entry>> entries_;
  size_t prune_at_ = kSmall;
};

}  // namespace tandem

#include "device/weights_bank.h"

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace tandem {
namespace {

// Slots by number. It grows in chunks that never move, so that reading needs no lock. It is never
// destroyed: operators may still run while the process ends.
class SlotTable {
 public:
  int32_t Add(const WeightForm* form) {
    const std::lock_guard lock(mutex_);
    int32_t number = 0;
    if (free_.empty()) {
      number = size_++;
      const auto chunk = static_cast<size_t>(number) / kChunkSize;
      if (chunk >= chunks_.size()) {
        throw Error(ErrorCode::kUnsupported, "more than a million weights in one process");
      }
      if (chunks_[chunk] == nullptr) chunks_[chunk] = new Chunk();
    } else {
      number = free_.back();
      free_.pop_back();
    }
    SlotAt(number).store(form, std::memory_order_release);
    return number;
  }

  void Remove(int32_t number) {
    const std::lock_guard lock(mutex_);
    SlotAt(number).store(nullptr, std::memory_order_release);
    free_.push_back(number);
  }

  const WeightForm* Find(int32_t number) const {
    if (number < 0 || number >= size_.load(std::memory_order_acquire)) return nullptr;
    return SlotAt(number).load(std::memory_order_acquire);
  }

 private:
  static constexpr size_t kChunkSize = 1024;
  using Slot = std::atomic<const WeightForm*>;
  using Chunk = std::array<Slot, kChunkSize>;

  Slot& SlotAt(int32_t number) const {
    const auto index = static_cast<size_t>(number);
    return (*chunks_[index / kChunkSize].load(std::memory_order_acquire))[index % kChunkSize];
  }

  std::mutex mutex_;
  std::array<std::atomic<Chunk*>, 1024> chunks_{};
  std::atomic<int32_t> size_ = 0;
  std::vector<int32_t> free_;  // guarded by mutex_
};

SlotTable& Slots() {
  static auto* const table = new SlotTable();
  return *table;
}

}  // namespace

WeightSlot::WeightSlot(WeightForm form) : form_(std::move(form)), number_(Slots().Add(&form_)) {}

WeightSlot::~WeightSlot() {
  Slots().Remove(number_);
}

const WeightForm& WeightSlot::At(int32_t number) {
  const WeightForm* form = Slots().Find(number);
  if (form == nullptr) {
    throw Error(ErrorCode::kInternal, Concat("no weight in slot ", number));
  }
  return *form;
}

}  // namespace tandem

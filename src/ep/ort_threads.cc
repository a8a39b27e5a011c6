#include "ep/ort_threads.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tandem {
namespace {

// Idle threads wake up in microseconds, on a busy machine in some milliseconds.
constexpr std::chrono::milliseconds kCountingTime{100};

// Where tasks wait for each other: those that are there at one time are on different threads.
class MeetingPoint {
 public:
  explicit MeetingPoint(int expected) : expected_(expected) {}

  void Arrive() {
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++present_);
    if (most_ >= expected_) changed_.notify_all();
    changed_.wait_until(lock, end_, [this] { return most_ >= expected_; });
    --present_;
  }

  int most() const { return most_; }

 private:
  const int expected_;
  const std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + kCountingTime;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Both guarded by mutex_.
  int present_ = 0;
  int most_ = 0;
};

}  // namespace

int CountThreads(const OrtFunctions& ort, const OrtKernelContext* context, int enough) {
  MeetingPoint point(enough);
  const auto arrive = [](void* meeting, size_t) { static_cast<MeetingPoint*>(meeting)->Arrive(); };
  ThrowIfFailed(ort.api, ort.api.KernelContext_ParallelFor(context, arrive,
                                                           static_cast<size_t>(enough), 0, &point));
  return std::max(1, point.most());
}

}  // namespace tandem

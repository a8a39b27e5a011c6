#include "run/request_pool.h"

#include <algorithm>

namespace tandem {

RequestPool::RequestPool(std::shared_ptr<const Program> program, size_t limit)
    : program_(std::move(program)), limit_(std::max<size_t>(1, limit)) {}

void RequestPool::Run(RunTensors& tensors, RunTimes* times) {
  std::unique_ptr<ProgramRequest> request = Take();
  // After a failed run too: the next one binds everything anew.
  struct Returner {
    RequestPool& pool;
    std::unique_ptr<ProgramRequest>& request;
    ~Returner() { pool.Return(std::move(request)); }
  } returner{*this, request};
  request->Run(tensors, times);
}

std::unique_ptr<ProgramRequest> RequestPool::Take() {
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [this] { return !free_.empty() || made_ < limit_; });
  if (!free_.empty()) {
    auto request = std::move(free_.back());
    free_.pop_back();
    return request;
  }
  ++made_;
  lock.unlock();
  try {
    return std::make_unique<ProgramRequest>(program_);
  } catch (...) {
    lock.lock();
    --made_;
    returned_.notify_one();
    throw;
  }
}

void RequestPool::Return(std::unique_ptr<ProgramRequest> request) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(request));
  returned_.notify_one();
}

}  // namespace tandem

#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "run/program_request.h"

namespace tandem {

// The requests of one program: made when they are needed, at most `limit` of them. Who comes when
// all are busy waits. Safe from any thread.
class RequestPool {
 public:
  RequestPool(std::shared_ptr<const Program> program, size_t limit);

  // Runs the program on a free request, as ProgramRequest::Run.
  void Run(RunTensors& tensors, RunTimes* times = nullptr);

 private:
  std::unique_ptr<ProgramRequest> Take();
  void Return(std::unique_ptr<ProgramRequest> request);

  const std::shared_ptr<const Program> program_;
  const size_t limit_;
  std::mutex mutex_;
  std::condition_variable returned_;
  // Both guarded by mutex_.
  std::vector<std::unique_ptr<ProgramRequest>> free_;
  size_t made_ = 0;
};

}  // namespace tandem

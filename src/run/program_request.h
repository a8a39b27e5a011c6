#pragma once

#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "device/kv_cache.h"
#include "run/profile.h"
#include "run/program.h"

namespace tandem {

// The tensors of one run, as the caller has them.
class RunTensors {
 public:
  virtual ~RunTensors() = default;

  // Input `index` of the program.
  virtual Tensor Input(size_t index) = 0;

  // Memory for output `index`, which has this shape: what the caller bound, or new.
  virtual Tensor Output(size_t index, const Shape& shape) = 0;
};

// One execution state of a program: requests of its functions and the buffers between them. Not
// safe for use from several threads at once; a program can have several requests.
class ProgramRequest {
 public:
  explicit ProgramRequest(std::shared_ptr<const Program> program);

  // Runs all calls. Inputs are read in place. Outputs with a static shape are written in place,
  // others are copied once. An output that shares memory with an input, without being one that the
  // program changes in place, is written when all is read: it is copied too. Fills `times`, if
  // there are any.
  void Run(RunTensors& tensors, RunTimes* times = nullptr);

  // Bytes of the buffers between calls.
  uint64_t buffer_bytes() const;

 private:
  // A caller's tensor that must not be written before the end, and what is to be copied to it.
  struct LateOutput {
    Tensor caller;
    Tensor result;
  };

  // One of the caches of a call.
  class CallCache;

  Tensor CacheMemory(const Program::Call::Cache& cache, const Shape& shape, RunTensors& tensors);
  void BindStaticOutputs(RunTensors& tensors);
  bool MayWriteInPlace(size_t output, const Tensor& tensor) const;
  void RunCall(const Program::Call& call, RunTensors& tensors, OpTimes* times);
  void MeasureCall(size_t call, RunTensors& tensors, RunTimes& times);
  void TakeResult(size_t value, const Tensor& result, RunTensors& tensors);

  std::shared_ptr<const Program> program_;
  std::vector<size_t> reads_;                                    // by value: by how many calls
  std::vector<std::vector<std::unique_ptr<Request>>> requests_;  // by function
  std::vector<AlignedBuffer> buffers_;
  std::vector<Tensor> current_;  // by value: where it is in this run
  std::vector<Tensor> inputs_;   // by input
  std::vector<LateOutput> late_outputs_;
  std::vector<CacheAddress> cache_addresses_;  // of the call that runs
  std::vector<Tensor> scratch_;                // of this run: caches that nobody keeps
};

}  // namespace tandem

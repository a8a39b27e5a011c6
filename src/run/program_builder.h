#pragma once

#include <memory>

#include "device/device.h"
#include "graph/fold.h"
#include "graph/lower.h"
#include "run/program.h"
#include "run/runtime.h"

namespace tandem {

struct BuildOptions {
  // Weight matrices are used through SharedMatMul and SharedGather; false: as constants of
  // OpenVINO.
  bool has_shared_ops = true;
  // Repeated blocks become functions. Needs has_shared_ops.
  bool folds = true;
  FoldLimits fold_limits;
  Activations activations = Activations::kAuto;
  int64_t qdq_accuracy_level = kInt8AccuracyLevel;  // for Activations::kAuto
  Properties properties;                            // of the device
  // Its calls say which nodes of the model their operators are.
  bool names_origins = false;
  // Nothing of the program refers to a file: it is to be bundled.
  bool is_self_contained = false;
};

// Compiles a partition for `device`. Weights come from the runtime's bank and functions from its
// cache, where an equal one is alive. Throws Error(kUnsupported) when the device cannot run the
// partition, and what reading the weights throws.
std::shared_ptr<const Program> BuildProgram(Runtime& runtime, Device& device,
                                            const BuildOptions& options, const Graph& partition);

// What builds programs, also those that are in a bundle (run/bundled_program.h).

// A function of the host (run/host_function.h), which it computes on the calling thread.
Program::CompiledFunction HostFunction(Graph graph);

// The key of a function's source; `external` of what its topology refers to in files.
Digest SourceKey(const Program& program, const Program::CompiledFunction& function,
                 const Digest& external);

// Compiles a function of the device, or finds the equal one that is alive.
std::shared_ptr<Function> CompileShared(WeakCache<Digest, Function>& functions, Device& device,
                                        const Properties& properties,
                                        const Program::CompiledFunction& function);

// i32 [weights]: the numbers of the weights at these positions of the program.
Tensor SlotNumbers(const Program& program, const std::vector<size_t>& weights);

// The same program with functions that run on this number of threads.
std::shared_ptr<const Program> WithThreads(Runtime& runtime, Device& device,
                                           const BuildOptions& options, const Program& program,
                                           int threads);

}  // namespace tandem

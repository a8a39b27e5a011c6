#pragma once

#include <memory>

#include "device/device.h"
#include "graph/fold.h"
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
  Properties properties;  // of the device
};

// Compiles a partition for `device`. Weights come from the runtime's bank and functions from its
// cache, where an equal one is alive. Throws Error(kUnsupported) when the device cannot run the
// partition, and what reading the weights throws.
std::shared_ptr<const Program> BuildProgram(Runtime& runtime, Device& device,
                                            const BuildOptions& options, const Graph& partition);

// The same program with functions that run on this number of threads.
std::shared_ptr<const Program> WithThreads(Runtime& runtime, Device& device,
                                           const BuildOptions& options, const Program& program,
                                           int threads);

}  // namespace tandem

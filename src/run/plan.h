#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/capability.h"
#include "run/program_builder.h"
#include "run/program_cache.h"

namespace tandem {

// Which nodes of a graph the device takes, as compiled programs, and why it leaves the others.
struct Plan {
  struct Partition {
    std::vector<NodeId> nodes;  // ascending
    std::shared_ptr<const Program> program;
  };

  std::vector<Partition> partitions;
  std::vector<Reason> declined;  // by node
};

// Plans by trying: all nodes but the `declined` (graph/capability.h) are partitioned and compiled.
// Where that fails, each kind of node is compiled alone to find out which the device lacks, and the
// rest is tried again. What the plan takes is therefore known to compile. Throws what reading the
// weights throws.
// Programs are taken from `cache`, if there is one, and kept there.
Plan MakePlan(Runtime& runtime, Device& device, const BuildOptions& options, const Graph& graph,
              std::vector<Reason> declined, ProgramCache* cache = nullptr);

}  // namespace tandem

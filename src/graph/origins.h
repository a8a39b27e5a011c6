#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// Which nodes of `graph` each node of `lowered` stands for, which was made from it (graph/lower.h),
// in their order. Empty where that is unknown: for a conversion that lowering added.
std::vector<std::vector<NodeId>> Origins(const Graph& graph, const Graph& lowered);

// What the ones who run a topology call the node: by its first output, when it has no name.
const std::string& NameInTopology(const Graph& graph, const Node& node);

}  // namespace tandem

#pragma once

#include <vector>

#include "graph/graph.h"

namespace tandem {

// Groups the supported nodes (by node) into as few partitions as possible, each of which can run as
// a whole: no path leaves a partition and comes back, and the partitions have an order. A node is
// in the last partition that it can be in, beside those that read it. Nodes of a partition are in
// ascending order and need not be connected.
std::vector<std::vector<NodeId>> PartitionNodes(const Graph& graph, const GraphIndex& index,
                                                const std::vector<bool>& supported);

}  // namespace tandem

#pragma once

#include "graph/capability.h"
#include "graph/graph.h"

namespace tandem {

// Why OpenVINO would compute `node` wrongly, or die of it: what is known of operators, as one
// table. None when nothing is known. Not for nodes that Tandem computes itself.
Reason OperatorFault(const Graph& graph, const GraphIndex& index, const Node& node);

}  // namespace tandem

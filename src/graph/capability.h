#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// Why a node is left to somebody else; none when Tandem takes it.
using Reason = std::optional<std::string>;

// For each node of `graph`, as far as rules can tell. The rules name what OpenVINO is known to
// compute wrongly or to die of: a node that it merely lacks is found by trying. A node with bodies
// is left with the first of its bodies' nodes that is. `has_shared_ops`: the device has Tandem's
// own operators (lower.h).
std::vector<Reason> DeclinedNodes(const Graph& graph, bool has_shared_ops);

}  // namespace tandem

#pragma once

#include "graph/graph.h"
#include "weights/digest.h"

namespace tandem {

// What a node does, whatever its values are called: operator, attributes, types and shapes of what
// it reads and makes, and the constants that are no floats (shapes, axes, codes). Of its weights
// only type and shape count. Bodies are not looked into.
Digest NodeSignature(const Graph& graph, const Node& node);

}  // namespace tandem

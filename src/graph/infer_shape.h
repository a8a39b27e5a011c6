#pragma once

#include "graph/graph.h"

namespace tandem {

// Gives the results of `node` a shape where they have none and it follows from the shapes of what
// the node reads: ranks surely, dimensions as far as they are easily told. For the common operators
// of ai.onnx (https://onnx.ai/onnx/operators); results of others stay as they are.
void InferShapes(Graph& graph, const Node& node);

}  // namespace tandem

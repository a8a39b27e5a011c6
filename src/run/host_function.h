#pragma once

#include <memory>

#include "device/device.h"
#include "graph/graph.h"

namespace tandem {

// A function that Tandem computes itself, on the calling thread: integer nodes
// (graph/host_nodes.h), exactly in 64 bits and with ONNX's semantics, casts to f32 included.
// `graph` must consist of such nodes; its constants are copied.
std::shared_ptr<Function> MakeHostFunction(const Graph& graph);

}  // namespace tandem

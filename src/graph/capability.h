#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// What the device takes, as far as the rules depend on it.
struct DeviceTraits {
  // SharedMatMul and SharedGather exist (relabel.h).
  bool has_shared_ops = true;
  // Unknown rank can be told from rank 0 (ONNX Runtime 1.24 and later).
  bool knows_unknown_rank = true;
};

// Why each node of `graph` is left to somebody else; empty where Tandem takes it, as far as rules
// can tell. The rules name what OpenVINO is known to compute wrongly or to die of: a node that it
// merely lacks is found by trying. A node with bodies is left with the first of its bodies' nodes
// that is.
std::vector<std::optional<std::string>> DeclinedNodes(const Graph& graph,
                                                      const DeviceTraits& traits);

}  // namespace tandem

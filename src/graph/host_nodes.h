#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/wide_integers.h"

namespace tandem {

// Integer nodes at the entrance of a graph that Tandem computes itself, on the host and in 64 bits:
// what becomes of attention masks, positions and lengths before the first real operator. A device
// would get them wrong (graph/wide_integers.h), and leaving them to another provider would cut the
// graph. They depend on inputs and constants only, and lead up to nodes that are not of their kind.
class HostNodes {
 public:
  HostNodes(const Graph& graph, const GraphIndex& index, const WideIntegers& wide_integers);

  bool Contains(NodeId node) const { return on_host_[node]; }

  // All nodes of the host, ascending.
  std::vector<NodeId> List() const;

 private:
  void MarkUnsafeAndWhatTheyRead(const Graph& graph, const GraphIndex& index,
                                 const WideIntegers& wide_integers,
                                 const std::vector<bool>& can_run);
  void KeepWhatOthersRead(const Graph& graph, const GraphIndex& index);

  std::vector<bool> on_host_;
};

// Whether the host computes an operator on values of these types (run/host_function.h).
bool IsHostOp(std::string_view op_type);
bool IsHostType(DataType type);

}  // namespace tandem

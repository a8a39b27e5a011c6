#include "graph/partition.h"

#include <algorithm>
#include <map>

namespace tandem {

// The wave of a node counts how often a path to it leaves the supported nodes. Supported nodes of
// one wave form a partition: a path that leaves it comes back, if at all, in a later wave.
std::vector<std::vector<NodeId>> PartitionNodes(const Graph& graph, const GraphIndex& index,
                                                const std::vector<bool>& supported) {
  std::vector<size_t> wave(graph.nodes.size());
  std::map<size_t, std::vector<NodeId>> partitions;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    for (const auto* reads : {&node.inputs, &node.captures}) {
      for (ValueId value : *reads) {
        if (value == kNoValue) continue;
        const NodeId producer = index.Producer(value);
        if (producer == GraphIndex::kNoNode) continue;
        const size_t leaves = supported[producer] && !supported[id] ? 1 : 0;
        wave[id] = std::max(wave[id], wave[producer] + leaves);
      }
    }
    if (supported[id]) partitions[wave[id]].push_back(id);
  }
  std::vector<std::vector<NodeId>> ordered;
  for (auto& [number, nodes] : partitions) ordered.push_back(std::move(nodes));
  return ordered;
}

}  // namespace tandem

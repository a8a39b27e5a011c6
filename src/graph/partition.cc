#include "graph/partition.h"

#include <algorithm>
#include <map>

namespace tandem {
namespace {

// The wave of a node counts how often a path to it leaves the supported nodes. Supported nodes of
// one wave form a partition: a path that leaves it comes back, if at all, in a later wave.
std::vector<size_t> EarliestWaves(const Graph& graph, const GraphIndex& index,
                                  const std::vector<bool>& supported) {
  std::vector<size_t> wave(graph.nodes.size());
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
  }
  return wave;
}

// Moves supported nodes to the wave of their first readers: what depends on little, such as the
// dequantization of a constant, would otherwise always be in the first partition.
void Postpone(const Graph& graph, const GraphIndex& index, const std::vector<bool>& supported,
              std::vector<size_t>& wave) {
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    if (!supported[id]) continue;
    size_t latest = SIZE_MAX;
    for (ValueId value : graph.nodes[id].outputs) {
      if (value == kNoValue) continue;
      for (NodeId reader : index.Consumers(value)) {
        latest = std::min(latest, supported[reader] ? wave[reader] : wave[reader] - 1);
      }
    }
    if (latest != SIZE_MAX) wave[id] = std::max(wave[id], latest);
  }
}

}  // namespace

std::vector<std::vector<NodeId>> PartitionNodes(const Graph& graph, const GraphIndex& index,
                                                const std::vector<bool>& supported) {
  std::vector<size_t> wave = EarliestWaves(graph, index, supported);
  Postpone(graph, index, supported, wave);
  std::map<size_t, std::vector<NodeId>> partitions;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (supported[id]) partitions[wave[id]].push_back(id);
  }
  std::vector<std::vector<NodeId>> ordered;
  for (auto& [number, nodes] : partitions) ordered.push_back(std::move(nodes));
  return ordered;
}

}  // namespace tandem

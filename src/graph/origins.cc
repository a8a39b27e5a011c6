#include "graph/origins.h"

namespace tandem {
namespace {

// Lowering keeps the values of the graph, and adds some.
class OriginFinder {
 public:
  OriginFinder(const Graph& graph, const Graph& lowered)
      : graph_(graph), index_(graph), is_made_(graph.values.size()) {
    casts_.resize(lowered.values.size(), kNoValue);
    for (const Node& node : lowered.nodes) {
      for (ValueId value : node.outputs) {
        if (IsOld(value)) is_made_[value] = true;
      }
      if (!IsOp(node, "Cast")) continue;
      const ValueId from = Input(node, 0);
      if (from != kNoValue && !IsOld(from)) casts_[from] = node.outputs.front();
    }
  }

  // What was computed between what other nodes make and this one's results.
  std::vector<NodeId> Find(const Node& node) const {
    std::vector<bool> is_found(graph_.nodes.size());
    std::vector<ValueId> open;
    for (ValueId value : node.outputs) {
      if (value == kNoValue) continue;
      if (!IsOld(value)) value = casts_[value];  // made in f32 in place of it
      if (IsOld(value)) open.push_back(value);
    }
    const size_t results = open.size();
    for (size_t next = 0; next < open.size(); ++next) {
      const ValueId value = open[next];
      if (next >= results && is_made_[value]) continue;
      const NodeId id = index_.Producer(value);
      if (id == GraphIndex::kNoNode || is_found[id]) continue;
      is_found[id] = true;
      for (ValueId input : graph_.nodes[id].inputs) {
        if (input != kNoValue) open.push_back(input);
      }
    }
    std::vector<NodeId> found;
    for (NodeId id = 0; id < is_found.size(); ++id) {
      if (is_found[id]) found.push_back(id);
    }
    return found;
  }

 private:
  bool IsOld(ValueId value) const { return value < graph_.values.size(); }

  const Graph& graph_;
  GraphIndex index_;
  std::vector<bool> is_made_;   // by value of the graph: by a node of the lowered graph
  std::vector<ValueId> casts_;  // by value that was added: what it is cast to
};

}  // namespace

std::vector<std::vector<NodeId>> Origins(const Graph& graph, const Graph& lowered) {
  const OriginFinder finder(graph, lowered);
  std::vector<std::vector<NodeId>> origins;
  for (const Node& node : lowered.nodes) {
    const bool is_conversion =
        IsOp(node, "Cast") && !node.inputs.empty() &&
        (node.inputs.front() >= graph.values.size() || node.outputs.front() >= graph.values.size());
    origins.push_back(is_conversion ? std::vector<NodeId>{} : finder.Find(node));
  }
  return origins;
}

const std::string& NameInTopology(const Graph& graph, const Node& node) {
  if (!node.name.empty() || node.outputs.empty() || node.outputs.front() == kNoValue) {
    return node.name;
  }
  return graph[node.outputs.front()].name;
}

}  // namespace tandem

#include "graph/host_nodes.h"

#include <algorithm>
#include <set>

namespace tandem {
namespace {

bool CanRunOnHost(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || !IsHostOp(node.op_type) || node.outputs.size() != 1) return false;
  const auto is_host_integer = [&](ValueId value) {
    return value == kNoValue || (graph[value].is_tensor && IsHostType(graph[value].type));
  };
  if (!std::all_of(node.inputs.begin(), node.inputs.end(), is_host_integer)) return false;
  const DataType result = graph[node.outputs.front()].type;
  return IsHostType(result) || (node.op_type == "Cast" && result == DataType::kFloat32);
}

}  // namespace

bool IsHostOp(std::string_view op_type) {
  static const std::set<std::string_view> ops{
      "Add", "Cast", "Equal", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual",
      "Max", "Min",  "Mul",   "Range",   "ReduceSum",      "Squeeze",  "Sub",  "Unsqueeze"};
  return ops.contains(op_type);
}

bool IsHostType(DataType type) {
  return type == DataType::kInt64 || type == DataType::kInt32 || type == DataType::kBool;
}

HostNodes::HostNodes(const Graph& graph, const GraphIndex& index, const WideIntegers& wide_integers)
    : on_host_(graph.nodes.size()) {
  std::vector<bool> can_run(graph.nodes.size());
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    can_run[id] = CanRunOnHost(graph, node) &&
                  std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId value) {
                    if (value == kNoValue) return true;
                    const NodeId producer = index.Producer(value);
                    return producer == GraphIndex::kNoNode || can_run[producer];
                  });
  }
  MarkUnsafeAndWhatTheyRead(graph, index, wide_integers, can_run);
  KeepWhatOthersRead(graph, index);
}

void HostNodes::MarkUnsafeAndWhatTheyRead(const Graph& graph, const GraphIndex& index,
                                          const WideIntegers& wide_integers,
                                          const std::vector<bool>& can_run) {
  // Readers first.
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    if (can_run[id] && wide_integers.IsUnsafe(id)) on_host_[id] = true;
    if (!on_host_[id]) continue;
    for (ValueId value : graph.nodes[id].inputs) {
      const NodeId producer = value == kNoValue ? GraphIndex::kNoNode : index.Producer(value);
      if (producer != GraphIndex::kNoNode) on_host_[producer] = true;
    }
  }
}

void HostNodes::KeepWhatOthersRead(const Graph& graph, const GraphIndex& index) {
  std::vector<bool> leads_on(graph.nodes.size());
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    if (!on_host_[id]) continue;
    const auto& readers = index.Consumers(graph.nodes[id].outputs.front());
    leads_on[id] = std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
      return !on_host_[reader] || leads_on[reader];
    });
  }
  on_host_ = std::move(leads_on);
}

std::vector<NodeId> HostNodes::List() const {
  std::vector<NodeId> nodes;
  for (NodeId id = 0; id < on_host_.size(); ++id) {
    if (on_host_[id]) nodes.push_back(id);
  }
  return nodes;
}

}  // namespace tandem

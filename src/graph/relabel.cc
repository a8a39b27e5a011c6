#include "graph/relabel.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/strings.h"
#include "graph/matrix_pattern.h"

namespace tandem {
namespace {

// Rewrites node by node into a copy of the graph.
class Relabeller {
 public:
  explicit Relabeller(const Graph& graph) : patterns_(graph), graph_(graph) {
    graph_.nodes.clear();
    for (const Node& node : graph.nodes) {
      if (const auto use = patterns_.Match(node)) {
        Replace(node, *use);
      } else {
        graph_.nodes.push_back(node);
      }
    }
  }

  Graph Take() {
    RemoveUnreadNodes();
    return std::move(graph_);
  }

 private:
  void Replace(const Node& node, const MatrixUse& use) {
    const ValueId result = node.outputs.front();
    const DataType type = graph_[result].type;
    const bool adds_bias = use.bias != kNoValue;

    Node shared;
    shared.domain = kTandemDomain;
    shared.op_type = use.is_gather ? "SharedGather" : "SharedMatMul";
    shared.name = node.name;
    shared.inputs = {use.is_gather ? use.activation : AsFloat32(use.activation)};
    shared.matrix = graph_.matrices.size();
    graph_.matrices.push_back(use.matrix);
    ValueId product = result;
    if (type != DataType::kFloat32) product = NewValue(result, "/f32", DataType::kFloat32);
    ValueId unbiased = adds_bias ? NewValue(result, "/product", DataType::kFloat32) : product;
    shared.outputs = {unbiased};
    graph_.nodes.push_back(std::move(shared));

    if (adds_bias) Append("Add", {unbiased, AsFloat32(use.bias)}, product, node.name + "/bias");
    if (product != result) AppendCast(product, result);
  }

  // `value` as f32; the same Cast for all who ask.
  ValueId AsFloat32(ValueId value) {
    if (graph_[value].type == DataType::kFloat32) return value;
    const auto [place, is_new] = as_float32_.try_emplace(value);
    if (is_new) {
      place->second = NewValue(value, "/as_f32", DataType::kFloat32);
      AppendCast(value, place->second);
    }
    return place->second;
  }

  ValueId NewValue(ValueId like, const std::string& suffix, DataType type) {
    Value value = graph_[like];
    value.name += suffix;
    value.type = type;
    value.weight = nullptr;
    return graph_.AddValue(std::move(value));
  }

  void AppendCast(ValueId from, ValueId to) {
    Append("Cast", {from}, to, graph_[to].name + "/cast");
    graph_.nodes.back().attributes = {{"to", static_cast<int64_t>(graph_[to].type)}};
  }

  void Append(const std::string& op_type, std::vector<ValueId> inputs, ValueId output,
              std::string name) {
    Node node;
    node.name = std::move(name);
    node.op_type = op_type;
    node.inputs = std::move(inputs);
    node.outputs = {output};
    graph_.nodes.push_back(std::move(node));
  }

  // From the end, so that what only served a removed node goes too.
  void RemoveUnreadNodes() {
    std::vector<bool> is_read(graph_.values.size());
    for (ValueId value : graph_.outputs) is_read[value] = true;
    std::vector<Node> kept;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const bool is_needed = std::any_of(node->outputs.begin(), node->outputs.end(),
                                         [&](ValueId v) { return v != kNoValue && is_read[v]; });
      if (!is_needed) continue;
      for (const auto* reads : {&node->inputs, &node->captures}) {
        for (ValueId value : *reads) {
          if (value != kNoValue) is_read[value] = true;
        }
      }
      kept.push_back(std::move(*node));
    }
    std::reverse(kept.begin(), kept.end());
    graph_.nodes = std::move(kept);
    for (ValueId value = 0; value < is_read.size(); ++value) {
      if (!is_read[value]) graph_.values[value].weight = nullptr;
    }
  }

  MatrixPatterns patterns_;
  Graph graph_;
  std::unordered_map<ValueId, ValueId> as_float32_;
};

}  // namespace

Graph RelabelWeights(const Graph& graph) {
  return Relabeller(graph).Take();
}

RelabelledNodes::RelabelledNodes(const Graph& graph, const GraphIndex& index, bool has_shared_ops)
    : relabelled_(graph.nodes.size()) {
  if (!has_shared_ops) return;
  const MatrixPatterns patterns(graph);
  // Readers come after what they read, so their verdict is there first when walking backwards.
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    const Node& node = graph.nodes[id];
    if (patterns.Match(node)) {
      relabelled_[id] = true;
      continue;
    }
    const ValueId output = node.outputs.empty() ? kNoValue : node.outputs.front();
    if (output == kNoValue || index.IsGraphOutput(output) || !patterns.IsMatrix(output)) continue;
    const auto& readers = index.Consumers(output);
    relabelled_[id] = !readers.empty() && std::all_of(readers.begin(), readers.end(),
                                                      [&](NodeId r) { return relabelled_[r]; });
  }
}

}  // namespace tandem

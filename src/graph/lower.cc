#include "graph/lower.h"

#include <algorithm>
#include <unordered_map>

#include "graph/attention_pattern.h"
#include "graph/matrix_pattern.h"

namespace tandem {
namespace {

// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
constexpr int64_t kInt8AccuracyLevel = 4;

// Rewrites node by node into a copy of the graph.
class Lowering {
 public:
  Lowering(const Graph& graph, Activations activations) : activations_(activations), graph_(graph) {
    const MatrixPatterns matrices(graph);
    const GraphIndex index(graph);
    graph_.nodes.clear();
    for (const Node& node : graph.nodes) {
      if (const auto matrix = matrices.Match(node)) {
        Replace(node, *matrix);
      } else if (const auto rotary = MatchRotaryEmbedding(graph, index, node)) {
        Replace(node, "RotaryEmbedding", {rotary->x, rotary->cos, rotary->sin}, {});
      } else if (const auto attention = MatchAttention(graph, index, node)) {
        std::vector<ValueId> inputs{attention->q, attention->k, attention->v};
        if (attention->bias != kNoValue) inputs.push_back(attention->bias);
        Replace(node, "Attention", inputs, {{"scale", attention->scale}});
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
    const bool adds_bias = use.bias != kNoValue;
    const ValueId made = Float32Result(node);
    Node shared = TandemNode(node, use.is_gather ? "SharedGather" : "SharedMatMul");
    shared.inputs = {use.is_gather ? use.activation : AsFloat32(use.activation)};
    shared.matrix = graph_.matrices.size();
    if (Quantizes(use)) shared.attributes = {{"int8", int64_t{1}}};
    graph_.matrices.push_back(use.matrix);
    ValueId product = made;
    if (adds_bias) product = NewValue(node.outputs.front(), "/product", DataType::kFloat32);
    shared.outputs = {product};
    graph_.nodes.push_back(std::move(shared));
    if (adds_bias) Append("Add", {product, AsFloat32(use.bias)}, made, node.name + "/bias");
    CastTo(node.outputs.front(), made);
  }

  bool Quantizes(const MatrixUse& use) const {
    if (use.is_gather || !use.matrix.scales || activations_ == Activations::kF32) return false;
    return activations_ == Activations::kInt8 || use.accuracy_level == kInt8AccuracyLevel;
  }

  // All of whose inputs are float tensors.
  void Replace(const Node& node, const std::string& op_type, const std::vector<ValueId>& inputs,
               std::vector<Attribute> attributes) {
    Node fused = TandemNode(node, op_type);
    for (ValueId input : inputs) fused.inputs.push_back(AsFloat32(input));
    fused.attributes = std::move(attributes);
    const ValueId made = Float32Result(node);
    fused.outputs = {made};
    graph_.nodes.push_back(std::move(fused));
    CastTo(node.outputs.front(), made);
  }

  static Node TandemNode(const Node& replaced, const std::string& op_type) {
    Node node;
    node.domain = kTandemDomain;
    node.op_type = op_type;
    node.name = replaced.name;
    return node;
  }

  // What to make in f32 in place of the node's result: itself, or what CastTo will cast.
  ValueId Float32Result(const Node& node) {
    const ValueId result = node.outputs.front();
    if (graph_[result].type == DataType::kFloat32) return result;
    return NewValue(result, "/f32", DataType::kFloat32);
  }

  void CastTo(ValueId result, ValueId made) {
    if (made != result) AppendCast(made, result);
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

  Activations activations_;
  Graph graph_;
  std::unordered_map<ValueId, ValueId> as_float32_;
};

}  // namespace

Graph Lower(const Graph& graph, Activations activations) {
  return Lowering(graph, activations).Take();
}

LoweredNodes::LoweredNodes(const Graph& graph, const GraphIndex& index, bool has_shared_ops)
    : lowered_(graph.nodes.size()) {
  if (!has_shared_ops) return;
  const MatrixPatterns patterns(graph);
  // Readers come after what they read, so their verdict is there first when walking backwards.
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    const Node& node = graph.nodes[id];
    if (patterns.Match(node)) {
      lowered_[id] = true;
      continue;
    }
    const ValueId output = node.outputs.empty() ? kNoValue : node.outputs.front();
    if (output == kNoValue || index.IsGraphOutput(output) || !patterns.IsMatrix(output)) continue;
    const auto& readers = index.Consumers(output);
    lowered_[id] = !readers.empty() && std::all_of(readers.begin(), readers.end(),
                                                   [&](NodeId r) { return lowered_[r]; });
  }
}

}  // namespace tandem

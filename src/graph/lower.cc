#include "graph/lower.h"

#include <algorithm>
#include <unordered_map>

#include "graph/attention_pattern.h"
#include "graph/group_query_attention.h"
#include "graph/matrix_pattern.h"
#include "graph/norm_pattern.h"
#include "graph/product_pattern.h"

namespace tandem {
namespace {

// Rewrites node by node into a copy of the graph.
class Lowering {
 public:
  Lowering(const Graph& original, Activations activations, int64_t qdq_accuracy_level)
      : activations_(activations),
        qdq_accuracy_level_(qdq_accuracy_level),
        graph_(SplitSkipNorms(original)) {
    const Graph graph = graph_;
    const GraphIndex index(graph);
    const Walker walker(graph, index);
    const MatrixPatterns matrices(graph);
    const ProductPatterns products(walker, matrices);
    graph_.nodes.clear();
    for (const Node& node : graph.nodes) {
      if (products.IsPart(node)) continue;
      if (const ProductGroup* group = products.Find(node)) {
        Replace(node, *group);
      } else if (const auto gather = matrices.Match(node)) {
        Replace(node, *gather);
      } else if (const auto norm = MatchRmsNorm(walker, node)) {
        Replace(node, "RmsNorm", {norm->x, norm->weight}, {{"epsilon", norm->epsilon}});
      } else if (const auto gqa = MatchGroupQueryAttention(walker, node)) {
        Replace(node, *gqa);
      } else if (const auto rotary = MatchRotaryEmbedding(walker, node)) {
        Replace(node, "RotaryEmbedding", {rotary->x, rotary->cos, rotary->sin}, {});
      } else if (const auto attention = MatchAttention(walker, node)) {
        Replace(node, *attention);
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
  void Replace(const Node& node, const MatrixUse& gather) {
    Node shared = TandemNode(node, "SharedGather");
    shared.inputs = {gather.activation};
    AddMatrix(shared, gather.matrix);
    AppendFloat(std::move(shared), {node.outputs.front()});
  }

  void Replace(const Node& node, const ProductGroup& group) {
    Node shared = TandemNode(node, "SharedMatMul");
    if (group.norm) {
      shared.inputs = {AsFloat32(group.norm->x), AsFloat32(group.norm->weight)};
      shared.attributes.push_back({"epsilon", group.norm->epsilon});
    } else {
      shared.inputs = {AsFloat32(group.products.front().use.activation)};
    }
    std::vector<int64_t> addends;
    bool quantizes = false;
    for (size_t i = 0; i < group.products.size(); ++i) {
      const Product& product = group.products[i];
      for (ValueId addend : product.addends) {
        shared.inputs.push_back(AsFloat32(addend));
        addends.push_back(static_cast<int64_t>(i));
      }
      AddMatrix(shared, product.use.matrix);
      quantizes |= Quantizes(product.use);
    }
    if (quantizes) shared.attributes.push_back({"int8", int64_t{1}});
    if (!addends.empty()) shared.attributes.push_back({"addends", std::move(addends)});
    if (!group.gate.empty()) shared.attributes.push_back({"gate", group.gate});
    AppendFloat(std::move(shared), group.Results());
  }

  void Replace(const Node& node, const AttentionUse& use) {
    Node attention = TandemNode(node, "Attention");
    attention.inputs.assign(use.inputs.begin(), use.inputs.end());
    for (size_t i = 0; i < AttentionPorts::kLast; ++i) {
      if (attention.inputs[i] != kNoValue) attention.inputs[i] = AsFloat32(attention.inputs[i]);
    }
    attention.attributes = use.attributes;
    attention.outputs.assign(use.outputs.begin(), use.outputs.end());
    for (auto* values : {&attention.inputs, &attention.outputs}) {
      while (values->back() == kNoValue) values->pop_back();
    }
    AppendFloat(std::move(attention), {use.outputs[AttentionPorts::kResult]});
  }

  // All of whose inputs are float tensors.
  void Replace(const Node& node, const std::string& op_type, const std::vector<ValueId>& inputs,
               std::vector<Attribute> attributes) {
    Node fused = TandemNode(node, op_type);
    for (ValueId input : inputs) fused.inputs.push_back(AsFloat32(input));
    fused.attributes = std::move(attributes);
    AppendFloat(std::move(fused), {node.outputs.front()});
  }

  void AddMatrix(Node& node, const Matrix& matrix) {
    node.matrices.push_back(graph_.matrices.size());
    graph_.matrices.push_back(matrix);
  }

  bool Quantizes(const MatrixUse& use) const {
    if (!use.matrix.scales || activations_ == Activations::kF32) return false;
    const bool asks_session = use.accuracy_level == MatrixUse::kSessionLevel;
    const int64_t level = asks_session ? qdq_accuracy_level_ : use.accuracy_level;
    return activations_ == Activations::kInt8 || level == kInt8AccuracyLevel;
  }

  // Appends a node whose first outputs are `results`, made in f32; those of another type are cast
  // from it. Tandem's nodes that read them read the f32.
  void AppendFloat(Node node, const std::vector<ValueId>& results) {
    node.outputs.resize(std::max(node.outputs.size(), results.size()), kNoValue);
    for (size_t i = 0; i < results.size(); ++i) node.outputs[i] = Float32Result(results[i]);
    const std::vector<ValueId> made(node.outputs.begin(),
                                    node.outputs.begin() + std::ssize(results));
    graph_.nodes.push_back(std::move(node));
    for (size_t i = 0; i < results.size(); ++i) {
      if (made[i] == results[i]) continue;
      AppendCast(made[i], results[i]);
      as_float32_[results[i]] = made[i];
    }
  }

  static Node TandemNode(const Node& replaced, const std::string& op_type) {
    Node node;
    node.domain = kTandemDomain;
    node.op_type = op_type;
    node.name = replaced.name;
    return node;
  }

  // What to make in f32 in place of a result: itself, or what is cast to it.
  ValueId Float32Result(ValueId result) {
    if (graph_[result].type == DataType::kFloat32) return result;
    return NewValue(result, "/f32", DataType::kFloat32);
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
    std::vector<bool> is_made(
        graph_.values.size());  // by a later node, which takes another's place
    for (ValueId value : graph_.outputs) is_read[value] = true;
    std::vector<Node> kept;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const bool is_needed =
          std::any_of(node->outputs.begin(), node->outputs.end(),
                      [&](ValueId v) { return v != kNoValue && is_read[v] && !is_made[v]; });
      if (!is_needed) continue;
      for (ValueId value : node->outputs) {
        if (value != kNoValue) is_made[value] = true;
      }
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
  int64_t qdq_accuracy_level_;
  Graph graph_;
  std::unordered_map<ValueId, ValueId> as_float32_;
};

}  // namespace

Graph Lower(const Graph& graph, Activations activations, int64_t qdq_accuracy_level) {
  return Lowering(graph, activations, qdq_accuracy_level).Take();
}

LoweredNodes::LoweredNodes(const Graph& graph, const GraphIndex& index, bool has_shared_ops)
    : lowered_(graph.nodes.size()) {
  if (!has_shared_ops) return;
  const MatrixPatterns patterns(graph);
  const Walker walker(graph, index);
  // Readers come after what they read, so their verdict is there first when walking backwards.
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    const Node& node = graph.nodes[id];
    if (patterns.Match(node) || MatchGroupQueryAttention(walker, node)) {
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

#include "graph/product_pattern.h"

#include <tuple>

namespace tandem {

ProductPatterns::ProductPatterns(const Walker& walker, const MatrixPatterns& matrices)
    : walker_(walker) {
  const Graph& graph = walker.graph();
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (auto use = matrices.Match(node)) {
      if (use->is_gather) continue;
      Product product{std::move(*use), {}, node.outputs.front()};
      if (product.use.bias != kNoValue) product.addends.push_back(product.use.bias);
      groups_[id].products.push_back(std::move(product));
    } else if (IsOp(node, "Add")) {
      AddTo(id);
    } else if (IsOp(node, "Mul")) {
      Gate(id);
    }
  }
  JoinByActivation();
  TakeGated();
  TakeNorms();
}

NodeId ProductPatterns::IdOf(const Node& node) const {
  return static_cast<NodeId>(&node - walker_.graph().nodes.data());
}

const ProductGroup* ProductPatterns::Find(const Node& node) const {
  const auto found = groups_.find(IdOf(node));
  return found == groups_.end() ? nullptr : &found->second;
}

bool ProductPatterns::IsReadOnlyBy(ValueId value, const std::set<NodeId>& readers) const {
  const auto& consumers = walker_.index().Consumers(value);
  return !walker_.index().IsGraphOutput(value) &&
         std::all_of(consumers.begin(), consumers.end(),
                     [&](NodeId id) { return readers.contains(id); });
}

NodeId ProductPatterns::ProductOf(ValueId value, const std::set<NodeId>& readers) const {
  const NodeId id = value == kNoValue ? GraphIndex::kNoNode : walker_.index().Producer(value);
  const auto group = id == GraphIndex::kNoNode ? groups_.end() : groups_.find(id);
  if (group == groups_.end() || !group->second.gate.empty()) return GraphIndex::kNoNode;
  return IsReadOnlyBy(value, readers) ? id : GraphIndex::kNoNode;
}

// Of two products, the later one takes the other as an addend.
void ProductPatterns::AddTo(NodeId add) {
  const Node& node = walker_.graph().nodes[add];
  if (node.inputs[0] == node.inputs[1]) return;
  const NodeId left = ProductOf(node.inputs[0], {add});
  const NodeId right = ProductOf(node.inputs[1], {add});
  NodeId id = left == GraphIndex::kNoNode ? right : left;
  if (id == GraphIndex::kNoNode) return;
  if (right != GraphIndex::kNoNode) id = std::max(id, right);
  const ValueId product = walker_.graph().nodes[id].outputs.front();
  const ValueId other = Walker::Other(node, product);
  const Shape* shape = walker_.FloatShape(product);
  const Shape* addend = walker_.FloatShape(other);
  const bool fits = shape != nullptr && addend != nullptr && shape->back() > 0 &&
                    shape->back() == addend->back() && addend->size() <= shape->size();
  if (!fits) return;
  parts_.insert(id);
  auto group = groups_.extract(id);
  group.key() = add;
  group.mapped().products.front().addends.push_back(other);
  group.mapped().products.front().result = node.outputs.front();
  groups_.insert(std::move(group));
}

NodeId ProductPatterns::GateOf(const ActivationUse& activation, NodeId mul) const {
  std::set<NodeId> readers = activation.nodes;
  readers.insert(mul);
  for (NodeId id : activation.nodes) {
    const ValueId made = walker_.graph().nodes[id].outputs.front();
    if (!IsReadOnlyBy(made, readers)) return GraphIndex::kNoNode;
  }
  return ProductOf(activation.x, activation.nodes);
}

void ProductPatterns::Gate(NodeId mul) {
  const Node& node = walker_.graph().nodes[mul];
  for (size_t side : {0, 1}) {
    const auto activation = MatchActivation(walker_, node.inputs[side]);
    if (!activation) continue;
    const NodeId gate_id = GateOf(*activation, mul);
    const NodeId up_id = ProductOf(node.inputs[1 - side], {mul});
    if (gate_id == GraphIndex::kNoNode || up_id == GraphIndex::kNoNode) continue;
    const Product& first = groups_[gate_id].products.front();
    const Product& second = groups_[up_id].products.front();
    const bool fits = first.use.activation == second.use.activation &&
                      first.use.matrix.k == second.use.matrix.k &&
                      first.use.matrix.n == second.use.matrix.n &&
                      first.use.accuracy_level == second.use.accuracy_level;
    const auto has_constant_addends = [this](const Product& product) {
      return std::all_of(product.addends.begin(), product.addends.end(), [this](ValueId v) {
        return walker_.graph()[v].weight && walker_.graph()[v].shape->size() == 1;
      });
    };
    if (!fits || !has_constant_addends(first) || !has_constant_addends(second)) continue;
    ProductGroup group{{first, second}, activation->name, node.outputs.front()};
    for (NodeId part : {gate_id, up_id}) {
      parts_.insert(part);
      groups_.erase(part);
    }
    groups_[mul] = std::move(group);
    return;
  }
}

void ProductPatterns::JoinByActivation() {
  // What is added must be there when the first product is computed: constants are.
  std::map<std::tuple<ValueId, int64_t, int64_t>, NodeId> firsts;
  for (auto group = groups_.begin(); group != groups_.end();) {
    const Product& product = group->second.products.front();
    const bool can_move =
        group->second.gate.empty() &&
        std::all_of(product.addends.begin(), product.addends.end(),
                    [this](ValueId v) { return walker_.graph()[v].weight != nullptr; });
    if (!can_move) {
      ++group;
      continue;
    }
    const auto [first, is_new] = firsts.try_emplace(
        {product.use.activation, product.use.matrix.k, product.use.accuracy_level}, group->first);
    if (is_new) {
      ++group;
      continue;
    }
    groups_[first->second].products.push_back(product);
    parts_.insert(group->first);
    group = groups_.erase(group);
  }
}

// A gated value that one product alone reads becomes part of that.
void ProductPatterns::TakeGated() {
  std::map<ValueId, NodeId> gates;
  for (const auto& [id, group] : groups_) {
    if (!group.gate.empty() && walker_.IsReadOnce(group.gated)) gates[group.gated] = id;
  }
  for (auto& [id, group] : groups_) {
    const Product& product = group.products.front();
    const auto gate = gates.find(product.use.activation);
    if (gate == gates.end() || group.products.size() != 1) continue;
    const auto found = groups_.find(gate->second);
    ProductGroup& gating = found->second;
    if (gating.products.front().use.accuracy_level != product.use.accuracy_level) continue;
    gating.products.push_back(product);
    group = std::move(gating);
    parts_.insert(found->first);
    groups_.erase(found);
  }
}

void ProductPatterns::TakeNorms() {
  for (auto& [id, group] : groups_) {
    const ValueId activation = group.products.front().use.activation;
    const NodeId maker = walker_.index().Producer(activation);
    const size_t readers = group.gate.empty() ? group.products.size() : 2;
    if (maker == GraphIndex::kNoNode || walker_.index().IsGraphOutput(activation) ||
        walker_.index().Consumers(activation).size() != readers) {
      continue;
    }
    group.norm = MatchRmsNorm(walker_, walker_.graph().nodes[maker]);
  }
}

std::vector<ValueId> ProductGroup::Results() const {
  if (!gate.empty()) return {products.size() > 2 ? products.back().result : gated};
  std::vector<ValueId> results;
  for (const Product& product : products) results.push_back(product.result);
  return results;
}

}  // namespace tandem

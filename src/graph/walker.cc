#include "graph/walker.h"

namespace tandem {

const Node* Walker::Made(ValueId value, std::string_view op_type) const {
  const NodeId id = value == kNoValue ? GraphIndex::kNoNode : index_.Producer(value);
  if (id == GraphIndex::kNoNode || !IsOp(graph_.nodes[id], op_type)) return nullptr;
  return &graph_.nodes[id];
}

const Node* Walker::ReadBy(ValueId value, std::string_view op_type) const {
  if (!IsReadOnce(value)) return nullptr;
  const Node& reader = graph_.nodes[index_.Consumers(value).front()];
  return IsOp(reader, op_type) ? &reader : nullptr;
}

bool Walker::IsReadOnce(ValueId value) const {
  return index_.Consumers(value).size() == 1 && !index_.IsGraphOutput(value);
}

bool Walker::IsFed(ValueId value) const {
  return index_.Producer(value) == GraphIndex::kNoNode && !graph_[value].weight;
}

const Shape* Walker::FloatShape(ValueId value) const {
  if (value == kNoValue || !FitsFloat32(graph_[value].type)) return nullptr;
  const auto& shape = graph_[value].shape;
  return shape && !shape->empty() ? &*shape : nullptr;
}

const Shape* Walker::FloatShape(ValueId value, size_t rank) const {
  const Shape* shape = FloatShape(value);
  return shape != nullptr && shape->size() == rank ? shape : nullptr;
}

ValueId Walker::SkipCasts(ValueId value) const {
  while (const Node* cast = Made(value, "Cast")) {
    if (!FitsFloat32(graph_[cast->inputs.front()].type)) break;
    value = cast->inputs.front();
  }
  return value;
}

ValueId Walker::SkipScale(ValueId value, float& scale) const {
  for (;;) {
    value = SkipCasts(value);
    if (const Node* mul = Made(value, "Mul")) {
      const auto left = ConstantFloat(graph_, mul->inputs[0]);
      const auto right = ConstantFloat(graph_, mul->inputs[1]);
      if (left.has_value() == right.has_value()) return value;
      scale *= left ? *left : *right;
      value = mul->inputs[left ? 1 : 0];
    } else if (const Node* div = Made(value, "Div")) {
      const auto divisor = ConstantFloat(graph_, div->inputs[1]);
      if (!divisor) return value;
      scale /= *divisor;
      value = div->inputs[0];
    } else {
      return value;
    }
  }
}

}  // namespace tandem

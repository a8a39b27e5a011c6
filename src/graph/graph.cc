#include "graph/graph.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/half.h"

namespace tandem {
namespace {

template <typename T>
const T* AttributeValue(const Node& node, std::string_view name) {
  const Attribute* attribute = FindAttribute(node, name);
  return attribute == nullptr ? nullptr : std::get_if<T>(&attribute->value);
}

}  // namespace

const Attribute* FindAttribute(const Node& node, std::string_view name) {
  const auto found = std::find_if(node.attributes.begin(), node.attributes.end(),
                                  [name](const Attribute& a) { return a.name == name; });
  return found == node.attributes.end() ? nullptr : &*found;
}

int64_t IntAttribute(const Node& node, std::string_view name, int64_t fallback) {
  const auto* value = AttributeValue<int64_t>(node, name);
  return value == nullptr ? fallback : *value;
}

float FloatAttribute(const Node& node, std::string_view name, float fallback) {
  const auto* value = AttributeValue<float>(node, name);
  return value == nullptr ? fallback : *value;
}

std::vector<int64_t> IntsAttribute(const Node& node, std::string_view name) {
  const auto* value = AttributeValue<std::vector<int64_t>>(node, name);
  return value == nullptr ? std::vector<int64_t>{} : *value;
}

std::optional<std::vector<int64_t>> ConstantInts(const Graph& graph, ValueId value) {
  if (value == kNoValue || !graph[value].weight) return std::nullopt;
  const Weight& weight = *graph[value].weight;
  std::vector<int64_t> elements;
  const auto read = [&]<typename T>(T element) {
    for (size_t at = 0; at + sizeof(T) <= weight.bytes.size(); at += sizeof(T)) {
      std::memcpy(&element, weight.bytes.data() + at, sizeof(T));
      elements.push_back(element);
    }
  };
  if (weight.type == DataType::kInt64) {
    read(int64_t{});
  } else if (weight.type == DataType::kInt32) {
    read(int32_t{});
  } else {
    return std::nullopt;
  }
  return elements;
}

std::optional<float> ConstantFloat(const Graph& graph, ValueId value) {
  if (value == kNoValue || !graph[value].weight) return std::nullopt;
  const Weight& weight = *graph[value].weight;
  if (ElementCount(weight.shape) != 1) return std::nullopt;
  const auto read = [&]<typename T>(T bits) {
    std::memcpy(&bits, weight.bytes.data(), sizeof(T));
    return bits;
  };
  switch (weight.type) {
    case DataType::kFloat32:
      return read(0.0F);
    case DataType::kFloat16:
      return HalfToFloat(read(uint16_t{}));
    case DataType::kBfloat16:
      return Bfloat16ToFloat(read(uint16_t{}));
    default:
      return std::nullopt;
  }
}

std::vector<std::shared_ptr<const Graph>> Bodies(const Node& node) {
  std::vector<std::shared_ptr<const Graph>> bodies;
  for (const Attribute& attribute : node.attributes) {
    if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute.value)) {
      bodies.push_back(*body);
    }
  }
  return bodies;
}

GraphIndex::GraphIndex(const Graph& graph)
    : producers_(graph.values.size(), kNoNode),
      consumers_(graph.values.size()),
      is_output_(graph.values.size()) {
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    for (const auto* read : {&node.inputs, &node.captures}) {
      for (ValueId value : *read) {
        if (value == kNoValue) continue;
        std::vector<NodeId>& readers = consumers_[value];
        if (readers.empty() || readers.back() != id) readers.push_back(id);
      }
    }
    for (ValueId value : node.outputs) {
      if (value != kNoValue) producers_[value] = id;
    }
  }
  for (ValueId value : graph.outputs) is_output_[value] = true;
}

Graph ExtractNodes(const Graph& graph, const GraphIndex& index, const std::vector<NodeId>& nodes) {
  Graph part;
  part.name = graph.name;
  part.ir_version = graph.ir_version;
  part.opsets = graph.opsets;

  std::vector<bool> inside(graph.nodes.size());
  for (NodeId id : nodes) inside[id] = true;

  std::unordered_map<ValueId, ValueId> renumbered;
  const auto keep = [&](ValueId value) {
    if (value == kNoValue) return kNoValue;
    const auto [place, is_new] = renumbered.try_emplace(value);
    if (is_new) {
      place->second = part.AddValue(graph[value]);
      const NodeId producer = index.Producer(value);
      const bool is_made_inside = producer != GraphIndex::kNoNode && inside[producer];
      if (!is_made_inside && !graph[value].weight) part.inputs.push_back(place->second);
    }
    return place->second;
  };
  for (NodeId id : nodes) {
    Node node = graph.nodes[id];
    for (ValueId& value : node.inputs) value = keep(value);
    for (ValueId& value : node.captures) value = keep(value);
    for (ValueId& value : node.outputs) {
      if (value == kNoValue) continue;
      const auto& readers = index.Consumers(value);
      const bool is_read_outside = std::any_of(readers.begin(), readers.end(),
                                               [&](NodeId reader) { return !inside[reader]; });
      const bool is_output = is_read_outside || index.IsGraphOutput(value);
      value = keep(value);
      if (is_output) part.outputs.push_back(value);
    }
    for (size_t& matrix : node.matrices) {
      part.matrices.push_back(graph.matrices[matrix]);
      matrix = part.matrices.size() - 1;
    }
    part.nodes.push_back(std::move(node));
  }
  return part;
}

}  // namespace tandem

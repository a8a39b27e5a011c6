#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/strings.h"
#include "graph/graph.h"

namespace tandem {

// Builds graphs for tests, value by name. Everything is f32 and [2,4] unless it is said otherwise.
class GraphBuilder {
 public:
  GraphBuilder() { graph_.opsets = {{"", 21}, {"com.microsoft", 1}}; }
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  static Shape DefaultShape() { return {2, 4}; }

  GraphBuilder& Input(const std::string& name, DataType type = DataType::kFloat32,
                      std::optional<Shape> shape = DefaultShape()) {
    graph_.inputs.push_back(Declare(name, type, std::move(shape)));
    return *this;
  }

  // The type and shape of a result that a node makes later.
  GraphBuilder& Result(const std::string& name, DataType type,
                       std::optional<Shape> shape = DefaultShape()) {
    Declare(name, type, std::move(shape));
    return *this;
  }

  // A constant; the values repeat `seed`, so that different seeds are different weights.
  GraphBuilder& Constant(const std::string& name, DataType type, const Shape& shape, int seed = 0) {
    std::vector<std::byte> bytes(TensorBytes(type, shape));
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(static_cast<size_t>(seed) * 31 + i % 7);
    }
    return ConstantBytes(name, type, shape, std::move(bytes));
  }

  template <typename T>
  GraphBuilder& ConstantValues(const std::string& name, DataType type, const Shape& shape,
                               const std::vector<T>& values) {
    const ByteSpan bytes = AsBytes(values);
    return ConstantBytes(name, type, shape, {bytes.begin(), bytes.end()});
  }

  // A constant of f32 without dimensions.
  GraphBuilder& Scalar(const std::string& name, float value) {
    return ConstantValues<float>(name, DataType::kFloat32, {}, {value});
  }

  // Appends a node. "" leaves out an input. Results that were not declared take type and shape of
  // the first input.
  GraphBuilder& Node(const std::string& op_type, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs,
                     std::vector<Attribute> attributes = {}, const std::string& domain = "") {
    tandem::Node node;
    node.op_type = op_type;
    node.domain = domain;
    node.name = op_type + "_" + std::to_string(graph_.nodes.size());
    for (const std::string& input : inputs) {
      node.inputs.push_back(input.empty() ? kNoValue : values_.at(input));
    }
    for (const std::string& output : outputs) {
      if (values_.contains(output)) {
        node.outputs.push_back(values_.at(output));
        continue;
      }
      const Value& like = graph_[node.inputs.front()];
      node.outputs.push_back(Declare(output, like.type, like.shape));
    }
    node.attributes = std::move(attributes);
    graph_.nodes.push_back(std::move(node));
    return *this;
  }

  GraphBuilder& Output(const std::string& name) {
    graph_.outputs.push_back(values_.at(name));
    return *this;
  }

  Graph& graph() { return graph_; }
  ValueId operator[](const std::string& name) const { return values_.at(name); }

 private:
  GraphBuilder& ConstantBytes(const std::string& name, DataType type, const Shape& shape,
                              std::vector<std::byte> bytes) {
    const ValueId value = Declare(name, type, shape);
    graph_.values[value].weight = OwnedWeight(name, type, shape, std::move(bytes));
    return *this;
  }

  ValueId Declare(const std::string& name, DataType type, std::optional<Shape> shape) {
    Value value;
    value.name = name;
    value.type = type;
    value.shape = std::move(shape);
    return values_[name] = graph_.AddValue(std::move(value));
  }

  Graph graph_;
  std::map<std::string, ValueId> values_;
};

// Operators of the nodes, in order.
inline std::string Ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes) ops.push_back(node.op_type);
  return Join(ops, " ");
}

// Names of values, in order; "-" where there is none.
inline std::string Names(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (ValueId value : values) names.push_back(value == kNoValue ? "-" : graph[value].name);
  return Join(names, " ");
}

}  // namespace tandem

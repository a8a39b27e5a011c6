#include "run/host_graph_json.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"
#include "graph/host_nodes.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

void Require(bool condition, const char* what) {
  if (condition) return;
  throw Error(ErrorCode::kInvalidModel, Concat("a function of the host in a bundle: ", what));
}

DataType TypeOf(const Json& json) {
  return DataTypeFromOnnx(json.at("type").get<int32_t>());
}

}  // namespace

Json HostGraphToJson(const Graph& graph) {
  Json json{{"inputs", graph.inputs}, {"outputs", graph.outputs}};
  for (const Value& value : graph.values) {
    Json entry{{"name", value.name}, {"type", static_cast<int32_t>(value.type)}};
    if (value.shape) entry["shape"] = *value.shape;
    if (value.weight) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(value.weight->bytes.data());
      entry["constant"] = {
          {"type", static_cast<int32_t>(value.weight->type)},
          {"shape", value.weight->shape},
          {"bytes", std::vector<uint8_t>(bytes, bytes + value.weight->bytes.size())}};
    }
    json["values"].push_back(std::move(entry));
  }
  for (const Node& node : graph.nodes) {
    Json attributes = Json::object();
    for (const Attribute& attribute : node.attributes) {
      if (const auto* number = std::get_if<int64_t>(&attribute.value))
        attributes[attribute.name] = *number;
      if (const auto* numbers = std::get_if<std::vector<int64_t>>(&attribute.value)) {
        attributes[attribute.name] = *numbers;
      }
    }
    json["nodes"].push_back({{"name", node.name},
                             {"op_type", node.op_type},
                             {"inputs", node.inputs},
                             {"outputs", node.outputs},
                             {"attributes", std::move(attributes)}});
  }
  return json;
}

Graph HostGraphFromJson(const Json& json) {
  Graph graph;
  for (const Json& entry : json.at("values")) {
    Value value{.name = entry.at("name").get<std::string>(), .type = TypeOf(entry)};
    if (entry.contains("shape")) value.shape = entry.at("shape").get<Shape>();
    Require(IsHostType(value.type) || value.type == DataType::kFloat32, "a value of the host");
    if (entry.contains("constant")) {
      const Json& constant = entry.at("constant");
      const auto bytes = constant.at("bytes").get<std::vector<uint8_t>>();
      std::vector<std::byte> copy(bytes.size());
      std::memcpy(copy.data(), bytes.data(), bytes.size());
      Require(IsHostType(TypeOf(constant)), "a constant of the host");
      value.weight = OwnedWeight(value.name, TypeOf(constant), constant.at("shape").get<Shape>(),
                                 std::move(copy));
    }
    graph.AddValue(std::move(value));
  }
  std::vector<bool> is_known;
  for (const Value& value : graph.values) is_known.push_back(value.weight != nullptr);
  const auto values = [&](const Json& list) {
    std::vector<ValueId> ids;
    for (const Json& id : list) {
      const auto number = id.get<ValueId>();
      Require(number == kNoValue || number < graph.values.size(), "a value of the host");
      ids.push_back(number);
    }
    return ids;
  };
  graph.inputs = values(json.at("inputs"));
  graph.outputs = values(json.at("outputs"));
  for (ValueId input : graph.inputs) {
    Require(input != kNoValue && graph[input].shape, "an input of the host");
    is_known[input] = true;
  }
  for (const Json& entry : json.at("nodes")) {
    Node node{.name = entry.at("name").get<std::string>(),
              .op_type = entry.at("op_type").get<std::string>(),
              .inputs = values(entry.at("inputs")),
              .outputs = values(entry.at("outputs"))};
    Require(IsHostOp(node.op_type) && !node.inputs.empty() && node.inputs[0] != kNoValue &&
                node.outputs.size() == 1 && node.outputs[0] != kNoValue,
            "a node of the host");
    for (ValueId input : node.inputs)
      Require(input == kNoValue || is_known[input], "a node's input");
    is_known[node.outputs[0]] = true;
    for (const auto& [name, attribute] : entry.at("attributes").items()) {
      if (attribute.is_array()) {
        node.attributes.push_back({name, attribute.get<std::vector<int64_t>>()});
      } else {
        node.attributes.push_back({name, attribute.get<int64_t>()});
      }
    }
    graph.nodes.push_back(std::move(node));
  }
  for (ValueId output : graph.outputs)
    Require(output != kNoValue && is_known[output] && graph[output].shape, "a result of the host");
  return graph;
}

}  // namespace tandem

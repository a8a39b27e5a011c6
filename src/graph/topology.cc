#include "graph/topology.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"
#include "graph/proto_writer.h"

namespace tandem {
namespace {

// Field numbers of onnx.proto3, https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3.
struct ModelProto {
  static constexpr int kIrVersion = 1, kProducerName = 2, kGraph = 7, kOpsetImport = 8;
};
struct OperatorSetIdProto {
  static constexpr int kDomain = 1, kVersion = 2;
};
struct GraphProto {
  static constexpr int kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
};
struct NodeProto {
  static constexpr int kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5, kDomain = 7;
};
struct AttributeProto {
  static constexpr int kName = 1, kF = 2, kI = 3, kS = 4, kT = 5, kG = 6, kFloats = 7, kInts = 8,
                       kStrings = 9, kType = 20;
  static constexpr int kTypeFloat = 1, kTypeInt = 2, kTypeString = 3, kTypeTensor = 4,
                       kTypeGraph = 5, kTypeFloats = 6, kTypeInts = 7, kTypeStrings = 8;
};
struct TensorProto {
  static constexpr int kDims = 1, kDataType = 2, kName = 8, kRawData = 9, kExternalData = 13,
                       kDataLocation = 14;
  static constexpr int kExternal = 1;
};
struct ValueInfoProto {
  static constexpr int kName = 1, kType = 2, kTensorType = 1, kElemType = 1, kShape = 2, kDim = 1,
                       kDimValue = 1;
};

constexpr int64_t kTandemOpsetVersion = 1;

void StringEntry(ProtoWriter& to, int field, std::string_view key, std::string_view value) {
  ProtoWriter entry;
  entry.Bytes(1, key);
  entry.Bytes(2, value);
  to.Message(field, entry);
}

ProtoWriter TensorHeader(const std::string& name, DataType type, const Shape& shape) {
  ProtoWriter tensor;
  for (int64_t dimension : shape) tensor.Int(TensorProto::kDims, dimension);
  tensor.Int(TensorProto::kDataType, static_cast<int64_t>(type));
  tensor.Bytes(TensorProto::kName, name);
  return tensor;
}

ProtoWriter InlineTensor(const std::string& name, const Weight& weight) {
  ProtoWriter tensor = TensorHeader(name, weight.type, weight.shape);
  tensor.Bytes(TensorProto::kRawData,
               {reinterpret_cast<const char*>(weight.bytes.data()), weight.bytes.size()});
  return tensor;
}

ProtoWriter ExternalTensor(const std::string& name, const Weight& weight) {
  ProtoWriter tensor = TensorHeader(name, weight.type, weight.shape);
  const auto path = std::filesystem::absolute(weight.file->path());
  StringEntry(tensor, TensorProto::kExternalData, "location", path.string());
  StringEntry(tensor, TensorProto::kExternalData, "offset", std::to_string(weight.offset));
  StringEntry(tensor, TensorProto::kExternalData, "length", std::to_string(weight.bytes.size()));
  tensor.Int(TensorProto::kDataLocation, TensorProto::kExternal);
  return tensor;
}

ProtoWriter ValueInfo(const std::string& name, DataType type, const std::optional<Shape>& shape) {
  ProtoWriter tensor;
  tensor.Int(ValueInfoProto::kElemType, static_cast<int64_t>(type));
  if (shape) {
    ProtoWriter dimensions;
    for (int64_t dimension : *shape) {
      ProtoWriter one;
      if (dimension >= 0) one.Int(ValueInfoProto::kDimValue, dimension);
      dimensions.Message(ValueInfoProto::kDim, one);
    }
    tensor.Message(ValueInfoProto::kShape, dimensions);
  }
  ProtoWriter type_proto;
  type_proto.Message(ValueInfoProto::kTensorType, tensor);
  ProtoWriter info;
  info.Bytes(ValueInfoProto::kName, name);
  info.Message(ValueInfoProto::kType, type_proto);
  return info;
}

ProtoWriter BodyProto(const Graph& body);

struct AttributeWriter {
  ProtoWriter& to;

  void Type(int type) { to.Int(AttributeProto::kType, type); }

  void operator()(const Unreadable&) {
    throw Error(ErrorCode::kUnsupported, "an attribute has a type that Tandem does not know");
  }
  void operator()(int64_t value) {
    to.Int(AttributeProto::kI, value);
    Type(AttributeProto::kTypeInt);
  }
  void operator()(float value) {
    to.Float(AttributeProto::kF, value);
    Type(AttributeProto::kTypeFloat);
  }
  void operator()(const std::string& value) {
    to.Bytes(AttributeProto::kS, value);
    Type(AttributeProto::kTypeString);
  }
  void operator()(const std::vector<int64_t>& values) {
    for (int64_t value : values) to.Int(AttributeProto::kInts, value);
    Type(AttributeProto::kTypeInts);
  }
  void operator()(const std::vector<float>& values) {
    for (float value : values) to.Float(AttributeProto::kFloats, value);
    Type(AttributeProto::kTypeFloats);
  }
  void operator()(const std::vector<std::string>& values) {
    for (const std::string& value : values) to.Bytes(AttributeProto::kStrings, value);
    Type(AttributeProto::kTypeStrings);
  }
  void operator()(const std::shared_ptr<const Weight>& value) {
    to.Message(AttributeProto::kT, InlineTensor(value->name, *value));
    Type(AttributeProto::kTypeTensor);
  }
  void operator()(const std::shared_ptr<const Graph>& value) {
    to.Message(AttributeProto::kG, BodyProto(*value));
    Type(AttributeProto::kTypeGraph);
  }
};

void WriteAttribute(ProtoWriter& node, const Attribute& attribute) {
  ProtoWriter proto;
  proto.Bytes(AttributeProto::kName, attribute.name);
  std::visit(AttributeWriter{proto}, attribute.value);
  node.Message(NodeProto::kAttribute, proto);
}

ProtoWriter NodeMessage(const Graph& graph, const Node& node) {
  ProtoWriter proto;
  const auto name_of = [&](ValueId value) {
    return value == kNoValue ? std::string_view() : std::string_view(graph[value].name);
  };
  for (ValueId value : node.inputs) proto.Bytes(NodeProto::kInput, name_of(value));
  if (!node.matrices.empty()) proto.Bytes(NodeProto::kInput, kSlotsInput);
  if (FindAttribute(node, "cache") != nullptr) proto.Bytes(NodeProto::kInput, kCachesInput);
  for (ValueId value : node.outputs) proto.Bytes(NodeProto::kOutput, name_of(value));
  proto.Bytes(NodeProto::kName, node.name);
  proto.Bytes(NodeProto::kOpType, node.op_type);
  for (const Attribute& attribute : node.attributes) WriteAttribute(proto, attribute);
  if (!node.matrices.empty()) {
    const Matrix& first = graph.matrices[node.matrices.front()];
    WriteAttribute(proto, {"argument", static_cast<int64_t>(node.matrices.front())});
    WriteAttribute(proto, {"n", first.n});
    WriteAttribute(proto, {"k", first.k});
    std::vector<int64_t> more;
    for (size_t i = 1; i < node.matrices.size(); ++i) {
      more.push_back(graph.matrices[node.matrices[i]].n);
    }
    if (!more.empty()) WriteAttribute(proto, {"more_n", std::move(more)});
  }
  proto.Bytes(NodeProto::kDomain, node.domain);
  return proto;
}

ProtoWriter NodesAndOutputs(const Graph& graph) {
  ProtoWriter proto;
  for (const Node& node : graph.nodes) proto.Message(GraphProto::kNode, NodeMessage(graph, node));
  proto.Bytes(GraphProto::kName, graph.name.empty() ? "graph" : graph.name);
  for (ValueId value : graph.outputs) {
    const Value& output = graph[value];
    proto.Message(GraphProto::kOutput, ValueInfo(output.name, output.type, output.shape));
  }
  return proto;
}

ProtoWriter BodyProto(const Graph& body) {
  ProtoWriter proto = NodesAndOutputs(body);
  for (ValueId value : body.inputs) {
    const Value& input = body[value];
    proto.Message(GraphProto::kInput, ValueInfo(input.name, input.type, input.shape));
  }
  for (const Value& value : body.values) {
    if (value.weight) {
      proto.Message(GraphProto::kInitializer, InlineTensor(value.name, *value.weight));
    }
  }
  return proto;
}

// Bodies have constants of the graph around them as their own.
bool IsReadBesidesBodies(const Graph& graph, const GraphIndex& index, ValueId constant) {
  const auto& readers = index.Consumers(constant);
  return index.IsGraphOutput(constant) ||
         std::any_of(readers.begin(), readers.end(), [&](NodeId id) {
           const std::vector<ValueId>& inputs = graph.nodes[id].inputs;
           return std::find(inputs.begin(), inputs.end(), constant) != inputs.end();
         });
}

}  // namespace

std::vector<WeightPlace> DefaultPlaces(const Graph& graph) {
  std::vector<WeightPlace> places(graph.values.size(), WeightPlace::kInline);
  for (ValueId value = 0; value < graph.values.size(); ++value) {
    const auto& weight = graph[value].weight;
    if (weight && weight->bytes.size() >= kInlineWeightBytes) places[value] = WeightPlace::kInput;
  }
  return places;
}

Topology WriteTopology(const Graph& graph, const std::vector<WeightPlace>& places) {
  Topology topology;
  ProtoWriter proto = NodesAndOutputs(graph);
  const auto add_input = [&](const std::string& name, DataType type,
                             const std::optional<Shape>& shape) {
    proto.Message(GraphProto::kInput, ValueInfo(name, type, shape));
    topology.inputs.push_back(name);
  };
  const GraphIndex index(graph);
  for (ValueId value : graph.inputs) {
    if (index.Consumers(value).empty() && !index.IsGraphOutput(value)) continue;
    add_input(graph[value].name, graph[value].type, graph[value].shape);
  }
  for (ValueId value = 0; value < graph.values.size(); ++value) {
    const Value& constant = graph[value];
    if (!constant.weight || !IsReadBesidesBodies(graph, index, value)) continue;
    WeightPlace place = places[value];
    if (place == WeightPlace::kExternal && !constant.weight->file) place = WeightPlace::kInline;
    if (place == WeightPlace::kInput) {
      add_input(constant.name, constant.weight->type, constant.weight->shape);
      topology.constants.push_back(value);
    } else {
      proto.Message(GraphProto::kInitializer,
                    place == WeightPlace::kInline
                        ? InlineTensor(constant.name, *constant.weight)
                        : ExternalTensor(constant.name, *constant.weight));
    }
  }
  if (!graph.matrices.empty()) {
    add_input(std::string(kSlotsInput), DataType::kInt32,
              Shape{static_cast<int64_t>(graph.matrices.size())});
  }

  if (graph.caches > 0) {
    const size_t elements = graph.caches * kAddressElements;
    add_input(std::string(kCachesInput), DataType::kInt32, Shape{static_cast<int64_t>(elements)});
  }

  ProtoWriter model;
  model.Int(ModelProto::kIrVersion, graph.ir_version);
  model.Bytes(ModelProto::kProducerName, "tandem");
  model.Message(ModelProto::kGraph, proto);
  const auto add_opset = [&](std::string_view domain, int64_t version) {
    ProtoWriter opset;
    opset.Bytes(OperatorSetIdProto::kDomain, domain);
    opset.Int(OperatorSetIdProto::kVersion, version);
    model.Message(ModelProto::kOpsetImport, opset);
  };
  for (const Opset& opset : graph.opsets) add_opset(opset.domain, opset.version);
  const bool has_own_ops =
      std::any_of(graph.nodes.begin(), graph.nodes.end(),
                  [](const Node& node) { return node.domain == kTandemDomain; });
  if (has_own_ops) add_opset(kTandemDomain, kTandemOpsetVersion);
  topology.model = model.Take();
  return topology;
}

}  // namespace tandem

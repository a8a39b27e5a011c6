#include "ep/ort_graph.h"

#include <algorithm>
#include <unordered_map>

#include "base/path_guard.h"
#include "base/strings.h"
#include "graph/infer_shape.h"

namespace fs = std::filesystem;

namespace tandem {
namespace {

// Calls the pair of functions by which ONNX Runtime returns an array: how many, then the elements.
template <typename Item, typename Object>
std::vector<Item> List(const OrtApi& api, const Object* object,
                       OrtStatus*(ORT_API_CALL* count)(const Object*, size_t*)NO_EXCEPTION,
                       OrtStatus*(ORT_API_CALL* get)(const Object*, Item*, size_t)NO_EXCEPTION) {
  size_t size = 0;
  ThrowIfFailed(api, count(object, &size));
  std::vector<Item> items(size);
  ThrowIfFailed(api, get(object, items.data(), size));
  return items;
}

// Calls a function that returns one thing.
template <typename Result, typename Object>
Result Get(const OrtApi& api, const Object* object,
           OrtStatus*(ORT_API_CALL* get)(const Object*, Result*)NO_EXCEPTION) {
  Result result{};
  ThrowIfFailed(api, get(object, &result));
  return result;
}

std::string NameOf(const OrtApi& api, const OrtValueInfo* value) {
  return value == nullptr ? "" : Get<const char*>(api, value, api.GetValueInfoName);
}

std::vector<std::string> NamesOf(const OrtApi& api,
                                 const std::vector<const OrtValueInfo*>& values) {
  std::vector<std::string> names;
  for (const OrtValueInfo* value : values) names.push_back(NameOf(api, value));
  return names;
}

// Reads one graph, and its bodies with readers of their own.
class GraphReader {
 public:
  GraphReader(const OrtFunctions& ort, WeightStore& store, const fs::path& data_folder,
              const fs::path& model_file)
      : ort_(ort),
        api_(ort.api),
        store_(store),
        data_folder_(data_folder),
        model_file_(model_file) {}

  // For a body of a node of `outer`; its first inputs are scalars.
  GraphReader(const GraphReader& outer, size_t scalar_inputs)
      : GraphReader(outer.ort_, outer.store_, outer.data_folder_, outer.model_file_) {
    outer_ = &outer;
    scalar_inputs_ = scalar_inputs;
  }

  Graph Read(const OrtGraph* ort_graph) {
    Graph graph;
    graph_ = &graph;
    graph_->name = Get<const char*>(api_, ort_graph, api_.Graph_GetName);
    graph_->ir_version = Get<int64_t>(api_, ort_graph, api_.Graph_GetOnnxIRVersion);
    ReadOpsets(ort_graph);
    const auto initializers =
        List(api_, ort_graph, api_.Graph_GetNumInitializers, api_.Graph_GetInitializers);
    for (const OrtValueInfo* value : initializers) ValueOf(value);
    for (const OrtValueInfo* value :
         List(api_, ort_graph, api_.Graph_GetNumInputs, api_.Graph_GetInputs)) {
      const ValueId input = ValueOf(value);
      if ((*graph_)[input].weight) continue;
      if (graph_->inputs.size() < scalar_inputs_) graph_->values[input].shape = Shape{};
      graph_->inputs.push_back(input);
    }
    for (const OrtNode* node : NodesOf(ort_, ort_graph)) {
      graph_->nodes.push_back(ReadNode(node));
      InferShapes(*graph_, graph_->nodes.back());
    }
    for (const OrtValueInfo* value :
         List(api_, ort_graph, api_.Graph_GetNumOutputs, api_.Graph_GetOutputs)) {
      graph_->outputs.push_back(ValueOf(value));
    }
    return graph;
  }

 private:
  void ReadOpsets(const OrtGraph* ort_graph) {
    size_t count = 0;
    ThrowIfFailed(api_, api_.Graph_GetNumOperatorSets(ort_graph, &count));
    std::vector<const char*> domains(count);
    std::vector<int64_t> versions(count);
    ThrowIfFailed(api_,
                  api_.Graph_GetOperatorSets(ort_graph, domains.data(), versions.data(), count));
    for (size_t i = 0; i < count; ++i) graph_->opsets.push_back({domains[i], versions[i]});
  }

  ValueId ValueOf(const OrtValueInfo* ort_value) {
    const std::string name = NameOf(api_, ort_value);
    if (name.empty()) return kNoValue;
    const auto [place, is_new] = values_.try_emplace(name, 0);
    if (is_new) place->second = graph_->AddValue(ReadValue(name, ort_value));
    return place->second;
  }

  std::vector<ValueId> ValuesOf(const std::vector<const OrtValueInfo*>& ort_values) {
    std::vector<ValueId> values;
    for (const OrtValueInfo* value : ort_values) values.push_back(ValueOf(value));
    return values;
  }

  Value ReadValue(const std::string& name, const OrtValueInfo* ort_value) {
    Value value;
    value.name = name;
    value.is_tensor = false;
    const OrtTypeInfo* type = Get<const OrtTypeInfo*>(api_, ort_value, api_.GetValueInfoTypeInfo);
    const OrtTensorTypeAndShapeInfo* tensor = nullptr;
    if (type != nullptr) ThrowIfFailed(api_, api_.CastTypeInfoToTensorInfo(type, &tensor));
    if (tensor == nullptr) return value;
    value.is_tensor = true;
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    ThrowIfFailed(api_, api_.GetTensorElementType(tensor, &element));
    value.type = DataTypeFromOnnx(element);
    value.shape = ReadShape(tensor);
    if (value.type != DataType::kUndefined && value.type != DataType::kString && value.shape) {
      value.weight = ReadConstant(name, ort_value, value);
    }
    const bool is_doubtful = !value.weight && value.shape == Shape{} && !KnowsUnknownRank(ort_);
    if (is_doubtful) value.shape = OuterShape(name);
    return value;
  }

  // The shape that a value of an enclosing graph has there.
  std::optional<Shape> OuterShape(const std::string& name) const {
    for (const GraphReader* outer = outer_; outer != nullptr; outer = outer->outer_) {
      const auto found = outer->values_.find(name);
      if (found != outer->values_.end()) return (*outer->graph_)[found->second].shape;
    }
    return std::nullopt;
  }

  std::optional<Shape> ReadShape(const OrtTensorTypeAndShapeInfo* tensor) {
#if ORT_API_VERSION >= 24
    if (KnowsUnknownRank(ort_) && !api_.TensorTypeAndShape_HasShape(tensor)) return std::nullopt;
#endif
    size_t rank = 0;
    ThrowIfFailed(api_, api_.GetDimensionsCount(tensor, &rank));
    Shape shape(rank);
    ThrowIfFailed(api_, api_.GetDimensions(tensor, shape.data(), rank));
    for (int64_t& dimension : shape) {
      if (dimension < 0) dimension = -1;
    }
    return shape;
  }

  std::shared_ptr<const Weight> ReadConstant(const std::string& name, const OrtValueInfo* ort_value,
                                             const Value& value) {
    bool is_constant = false;
    ThrowIfFailed(api_, api_.ValueInfo_IsConstantInitializer(ort_value, &is_constant));
    if (!is_constant) return nullptr;
    OrtExternalInitializerInfo* external = nullptr;
    ThrowIfFailed(api_, api_.ValueInfo_GetExternalInitializerInfo(ort_value, &external));
    if (external != nullptr) {
      const std::unique_ptr<OrtExternalInitializerInfo,
                            decltype(api_.ReleaseExternalInitializerInfo)>
          release(external, api_.ReleaseExternalInitializerInfo);
      return ReadExternal(name, *external, value);
    }
    const OrtValue* data = nullptr;
    ThrowIfFailed(api_, api_.ValueInfo_GetInitializerValue(ort_value, &data));
    if (data == nullptr) return nullptr;
    const void* bytes = nullptr;
    size_t size = 0;
    ThrowIfFailed(api_, api_.GetTensorSizeInBytes(data, &size));
    ThrowIfFailed(api_, api_.GetTensorData(data, &bytes));
    const ByteSpan span(static_cast<const std::byte*>(bytes), size);
    return std::make_shared<const Weight>(WeightInMemory(name, value.type, *value.shape, span));
  }

  std::shared_ptr<const Weight> ReadExternal(const std::string& name,
                                             const OrtExternalInitializerInfo& external,
                                             const Value& value) {
    const std::string location = api_.ExternalInitializerInfo_GetFilePath(&external);
    const fs::path folder = data_folder_.empty() ? model_file_.parent_path() : data_folder_;
    const fs::path file =
        ResolveReference(folder, location, model_file_, Concat("weight '", name, "'"));
    const int64_t offset = api_.ExternalInitializerInfo_GetFileOffset(&external);
    if (offset < 0) {
      throw Error(ErrorCode::kInvalidModel,
                  Concat("weight '", name, "': found offset ", offset, " in '", file.string(),
                         "', expected 0 or more"));
    }
    uint64_t length = api_.ExternalInitializerInfo_GetByteSize(&external);
    if (length == 0) length = TensorBytes(value.type, *value.shape);  // may be left out
    return std::make_shared<const Weight>(WeightInFile(
        name, value.type, *value.shape, store_.Open(file), static_cast<uint64_t>(offset), length));
  }

  Node ReadNode(const OrtNode* ort_node) {
    Node node;
    node.name = Get<const char*>(api_, ort_node, api_.Node_GetName);
    node.op_type = Get<const char*>(api_, ort_node, api_.Node_GetOperatorType);
    node.domain = Get<const char*>(api_, ort_node, api_.Node_GetDomain);
    if (node.domain == "ai.onnx") node.domain.clear();
    node.inputs = ValuesOf(List(api_, ort_node, api_.Node_GetNumInputs, api_.Node_GetInputs));
    node.outputs = ValuesOf(List(api_, ort_node, api_.Node_GetNumOutputs, api_.Node_GetOutputs));
    node.captures =
        ValuesOf(List(api_, ort_node, api_.Node_GetNumImplicitInputs, api_.Node_GetImplicitInputs));
    for (const OrtOpAttr* attribute :
         List(api_, ort_node, api_.Node_GetNumAttributes, api_.Node_GetAttributes)) {
      const OrtOpAttrType type = TypeOf(attribute);
      if (type != ORT_OP_ATTR_GRAPH) node.attributes.push_back(ReadAttribute(attribute, type));
    }
    ReadBodies(ort_node, node);
    return node;
  }

  void ReadBodies(const OrtNode* ort_node, Node& node) {
    size_t count = 0;
    ThrowIfFailed(api_, api_.Node_GetNumSubgraphs(ort_node, &count));
    std::vector<const OrtGraph*> bodies(count);
    std::vector<const char*> names(count);
    ThrowIfFailed(api_, api_.Node_GetSubgraphs(ort_node, bodies.data(), count, names.data()));
    for (size_t i = 0; i < count; ++i) {
      // A Loop's: the number of the iteration, and whether to go on.
      GraphReader reader(*this, node.op_type == "Loop" ? 2 : 0);
      auto body = std::make_shared<const Graph>(reader.Read(bodies[i]));
      node.attributes.push_back({names[i], std::move(body)});
    }
  }

  // Undefined for types that ONNX Runtime does not hand over either, such as the one of Optional.
  OrtOpAttrType TypeOf(const OrtOpAttr* attribute) {
    OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
    OrtStatus* unknown = api_.OpAttr_GetType(attribute, &type);
    if (unknown == nullptr) return type;
    api_.ReleaseStatus(unknown);
    return ORT_OP_ATTR_UNDEFINED;
  }

  Attribute ReadAttribute(const OrtOpAttr* attribute, OrtOpAttrType type) {
    Attribute read{Get<const char*>(api_, attribute, api_.OpAttr_GetName), Unreadable{}};
    switch (type) {
      case ORT_OP_ATTR_INT:
        read.value = ReadArray<int64_t>(attribute, type).at(0);
        break;
      case ORT_OP_ATTR_FLOAT:
        read.value = ReadArray<float>(attribute, type).at(0);
        break;
      case ORT_OP_ATTR_STRING: {
        const std::vector<char> text = ReadArray<char>(attribute, type);
        read.value = std::string(text.begin(), text.end());
        break;
      }
      case ORT_OP_ATTR_INTS:
        read.value = ReadArray<int64_t>(attribute, type);
        break;
      case ORT_OP_ATTR_FLOATS:
        read.value = ReadArray<float>(attribute, type);
        break;
      case ORT_OP_ATTR_STRINGS:
        read.value = SplitStrings(ReadArray<char>(attribute, type));
        break;
      case ORT_OP_ATTR_TENSOR:
        ReadTensor(attribute, read);
        break;
      default:
        break;
    }
    return read;
  }

  // ReadOpAttr says how many bytes it needs when it gets too few.
  template <typename T>
  std::vector<T> ReadArray(const OrtOpAttr* attribute, OrtOpAttrType type) {
    size_t bytes = 0;
    OrtStatus* too_small = api_.ReadOpAttr(attribute, type, nullptr, 0, &bytes);
    if (too_small == nullptr) return {};
    api_.ReleaseStatus(too_small);
    std::vector<T> values(bytes / sizeof(T));
    ThrowIfFailed(api_, api_.ReadOpAttr(attribute, type, values.data(), bytes, &bytes));
    return values;
  }

  // Strings come one after the other, each with its zero byte.
  static std::vector<std::string> SplitStrings(const std::vector<char>& text) {
    std::vector<std::string> strings;
    for (size_t at = 0; at < text.size(); at += strings.back().size() + 1) {
      strings.emplace_back(text.data() + at);
    }
    return strings;
  }

  // Tensors in attributes are small: they are copied, and stay unreadable when they hold strings.
  void ReadTensor(const OrtOpAttr* attribute, Attribute& read) {
    OrtValue* tensor = nullptr;
    ThrowIfFailed(api_, api_.OpAttr_GetTensorAttributeAsOrtValue(attribute, &tensor));
    const std::unique_ptr<OrtValue, decltype(api_.ReleaseValue)> release(tensor, api_.ReleaseValue);
    OrtTensorTypeAndShapeInfo* info = nullptr;
    ThrowIfFailed(api_, api_.GetTensorTypeAndShape(tensor, &info));
    const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(api_.ReleaseTensorTypeAndShapeInfo)>
        release_info(info, api_.ReleaseTensorTypeAndShapeInfo);
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    ThrowIfFailed(api_, api_.GetTensorElementType(info, &element));
    const DataType type = DataTypeFromOnnx(element);
    if (BitWidth(type) == 0) return;
    const void* data = nullptr;
    size_t size = 0;
    ThrowIfFailed(api_, api_.GetTensorSizeInBytes(tensor, &size));
    ThrowIfFailed(api_, api_.GetTensorData(tensor, &data));

    const auto* first = static_cast<const std::byte*>(data);
    read.value = OwnedWeight(read.name, type, *ReadShape(info), {first, first + size});
  }

  const OrtFunctions& ort_;
  const OrtApi& api_;
  WeightStore& store_;
  const fs::path& data_folder_;
  const fs::path& model_file_;
  const GraphReader* outer_ = nullptr;
  size_t scalar_inputs_ = 0;
  Graph* graph_ = nullptr;
  std::unordered_map<std::string, ValueId> values_;
};

}  // namespace

Graph ImportGraph(const OrtFunctions& ort, const OrtGraph* ort_graph, WeightStore& store,
                  const fs::path& data_folder) {
  const fs::path model_file = ModelFile(ort, ort_graph);
  return GraphReader(ort, store, data_folder, model_file).Read(ort_graph);
}

std::vector<const OrtNode*> NodesOf(const OrtFunctions& ort, const OrtGraph* graph) {
  return List(ort.api, graph, ort.api.Graph_GetNumNodes, ort.api.Graph_GetNodes);
}

NodeIds IdsOf(const OrtFunctions& ort, const std::vector<const OrtNode*>& nodes) {
  NodeIds ids;
  for (const OrtNode* node : nodes) ids.push_back(Get<size_t>(ort.api, node, ort.api.Node_GetId));
  std::sort(ids.begin(), ids.end());
  return ids;
}

fs::path ModelFile(const OrtFunctions& ort, const OrtGraph* graph) {
  return Get<const ORTCHAR_T*>(ort.api, graph, ort.api.Graph_GetModelPath);
}

std::string NodeName(const OrtFunctions& ort, const OrtNode* node) {
  return Get<const char*>(ort.api, node, ort.api.Node_GetName);
}

std::string OpType(const OrtFunctions& ort, const OrtNode* node) {
  return Get<const char*>(ort.api, node, ort.api.Node_GetOperatorType);
}

std::string ProviderOf(const OrtFunctions& ort, const OrtNode* node) {
  const auto* name = Get<const char*>(ort.api, node, ort.api.Node_GetEpName);
  return name == nullptr ? "" : name;
}

std::vector<std::string> InputNames(const OrtFunctions& ort, const OrtNode* node) {
  return NamesOf(ort.api, List(ort.api, node, ort.api.Node_GetNumInputs, ort.api.Node_GetInputs));
}

std::vector<std::string> OutputNames(const OrtFunctions& ort, const OrtNode* node) {
  return NamesOf(ort.api, List(ort.api, node, ort.api.Node_GetNumOutputs, ort.api.Node_GetOutputs));
}

bool IsBody(const OrtFunctions& ort, const OrtGraph* graph) {
  if (Get<const OrtNode*>(ort.api, graph, ort.api.Graph_GetParentNode) != nullptr) return true;
  if (TellsParentNode(ort)) return false;
  if (Get<size_t>(ort.api, graph, ort.api.Graph_GetNumInputs) == 0) return true;
  for (const OrtNode* node : NodesOf(ort, graph)) {
    for (const OrtValueInfo* input :
         List(ort.api, node, ort.api.Node_GetNumInputs, ort.api.Node_GetInputs)) {
      if (input != nullptr && Get<bool>(ort.api, input, ort.api.ValueInfo_IsFromOuterScope)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace tandem

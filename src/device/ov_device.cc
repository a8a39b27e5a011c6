#include "device/ov_device.h"

#include <algorithm>
#include <openvino/frontend/onnx/extension/conversion.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/openvino.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/strings.h"
#include "device/ops/attention.h"
#include "device/ops/rotary_embedding.h"
#include "device/ops/shared_gather.h"
#include "device/ops/shared_matmul.h"
#include "device/ov_types.h"

namespace tandem {
namespace {

// Runs `body`; what OpenVINO throws becomes an Error with `code`.
template <typename Body>
auto Guarded(ErrorCode code, const std::string& subject, Body&& body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(code, Concat(subject, ": ", error.what()));
  }
}

// Turns a node "tandem.<Op>" of the topology into what `make` makes of its inputs and attributes.
template <typename Op, typename Make>
void AddOperator(ov::Core& core, Make make) {
  const std::string type = Op::get_type_info_static().name;
  core.add_extension<Op>();
  core.add_extension(std::make_shared<ov::frontend::onnx::ConversionExtension>(
      type, "tandem", [make](const ov::frontend::NodeContext& node) -> ov::OutputVector {
        ov::OutputVector inputs;
        for (size_t i = 0; i < node.get_input_size(); ++i) {
          inputs.push_back(node.get_input(static_cast<int>(i)));
        }
        return make(inputs, node)->outputs();
      }));
}

void AddOperators(ov::Core& core) {
  using ov::OutputVector;
  using ov::frontend::NodeContext;
  AddOperator<SharedMatMul>(core, [](const OutputVector& inputs, const NodeContext& node) {
    return std::make_shared<SharedMatMul>(
        inputs.at(0), inputs.at(1), node.get_attribute<int64_t>("argument"),
        node.get_attribute<int64_t>("n"), node.get_attribute<int64_t>("k"),
        node.get_attribute<int64_t>("int8", 0) != 0);
  });
  AddOperator<SharedGather>(core, [](const OutputVector& inputs, const NodeContext& node) {
    return std::make_shared<SharedGather>(
        inputs.at(0), inputs.at(1), node.get_attribute<int64_t>("argument"),
        node.get_attribute<int64_t>("n"), node.get_attribute<int64_t>("k"));
  });
  AddOperator<RotaryEmbedding>(core, [](const OutputVector& inputs, const NodeContext&) {
    return std::make_shared<RotaryEmbedding>(inputs);
  });
  AddOperator<Attention>(core, [](const OutputVector& inputs, const NodeContext& node) {
    return std::make_shared<Attention>(inputs, node.get_attribute<float>("scale"));
  });
}

// The front end renames a parameter that is also an output: only its place tells which it is.
void RestoreNames(ov::Model& model, const FunctionSource& source) {
  const ov::ParameterVector& parameters = model.get_parameters();
  if (parameters.size() != source.topology_inputs.size()) {
    throw Error(ErrorCode::kInternal,
                Concat("OpenVINO made ", parameters.size(), " parameters, expected ",
                       Join(source.topology_inputs, ", ")));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i]->set_friendly_name(source.topology_inputs[i]);
  }
}

void AttachConstants(ov::Model& model, const FunctionSource& source) {
  const ov::ParameterVector parameters = model.get_parameters();
  for (const auto& parameter : parameters) {
    const auto found = source.constants.find(parameter->get_friendly_name());
    if (found == source.constants.end()) continue;
    // The constant views the tensor's memory and keeps its owner.
    const auto constant = std::make_shared<ov::op::v0::Constant>(ViewAsOv(found->second));
    constant->set_friendly_name(found->first);
    parameter->output(0).replace(constant->output(0));
    model.remove_parameter(parameter);
  }
  model.validate_nodes_and_infer_types();
}

// The CPU plugin (2026.4) forgets an output that is nothing but an input.
void CopyInputsToOutputs(ov::Model& model) {
  for (const auto& result : model.get_results()) {
    const ov::Output<ov::Node> source = result->input_value(0);
    if (!ov::is_type<ov::op::v0::Parameter>(source.get_node())) continue;
    const auto copy = std::make_shared<ov::op::v0::Convert>(source, source.get_element_type());
    result->input(0).replace_source_output(copy);
  }
}

// The inputs of a function, and where they are in the compiled model.
struct Inputs {
  static constexpr size_t kUnused = SIZE_MAX;

  std::vector<Port> ports;
  std::vector<size_t> places;
};

class OvRequest final : public Request {
 public:
  OvRequest(ov::InferRequest request, std::shared_ptr<const Inputs> inputs)
      : request_(std::move(request)), inputs_(std::move(inputs)) {}

  void SetInput(size_t input, const Tensor& tensor) override {
    const size_t place = inputs_->places[input];
    if (place == Inputs::kUnused) return;
    const Port& port = inputs_->ports[input];
    CheckFits(port, tensor);
    Guarded(ErrorCode::kDevice, Concat("input '", port.name, "'"),
            [&] { request_.set_input_tensor(place, ViewAsOv(tensor)); });
  }

  void SetOutput(size_t output, const Tensor& tensor) override {
    Guarded(ErrorCode::kDevice, Concat("output ", output),
            [&] { request_.set_output_tensor(output, ViewAsOv(tensor)); });
  }

  void Run() override {
    Guarded(ErrorCode::kDevice, "inference failed", [&] { request_.infer(); });
  }

  Tensor Output(size_t output) override {
    return Guarded(ErrorCode::kDevice, Concat("output ", output), [&] {
      ov::Tensor tensor = request_.get_output_tensor(output);
      const ov::Shape& shape = tensor.get_shape();
      return Tensor{FromOv(tensor.get_element_type()), Shape(shape.begin(), shape.end()),
                    static_cast<std::byte*>(tensor.data()), nullptr};
    });
  }

 private:
  static void CheckFits(const Port& port, const Tensor& tensor) {
    bool fits = port.type == tensor.type && port.shape.size() == tensor.shape.size();
    for (size_t i = 0; fits && i < port.shape.size(); ++i) {
      fits = port.shape[i] < 0 || port.shape[i] == tensor.shape[i];
    }
    if (fits) return;
    throw Error(
        ErrorCode::kInvalidArgument,
        Concat("input '", port.name, "': found ", Name(tensor.type), ShapeText(tensor.shape),
               ", expected ", Name(port.type), ShapeText(port.shape)));
  }

  ov::InferRequest request_;
  std::shared_ptr<const Inputs> inputs_;
};

class OvFunction final : public Function {
 public:
  OvFunction(ov::CompiledModel model, const FunctionSource& source) : model_(std::move(model)) {
    auto inputs = std::make_shared<Inputs>();
    std::unordered_map<std::string, size_t> places;
    for (size_t i = 0; i < model_.inputs().size(); ++i) {
      places[model_.inputs()[i].get_node()->get_friendly_name()] = i;
    }
    for (const std::string& name : source.inputs) {
      const auto place = places.find(name);
      const bool is_used = place != places.end();
      inputs->places.push_back(is_used ? place->second : Inputs::kUnused);
      inputs->ports.push_back(is_used ? PortOf(name, model_.inputs()[place->second])
                                      : Port{name, DataType::kUndefined, {}});
    }
    inputs_ = std::move(inputs);
    if (model_.outputs().size() != source.outputs.size()) {
      throw Error(ErrorCode::kInternal, Concat("OpenVINO made ", model_.outputs().size(),
                                               " outputs, expected ", source.outputs.size()));
    }
    for (size_t i = 0; i < source.outputs.size(); ++i) {
      outputs_.push_back(PortOf(source.outputs[i], model_.outputs()[i]));
    }
  }

  const std::vector<Port>& inputs() const override { return inputs_->ports; }
  const std::vector<Port>& outputs() const override { return outputs_; }

  int threads() const override {
    return Guarded(ErrorCode::kDevice, "cannot ask for the number of threads",
                   [&] { return model_.get_property(ov::inference_num_threads); });
  }

  std::unique_ptr<Request> NewRequest() override {
    return Guarded(ErrorCode::kDevice, "cannot make an infer request", [&] {
      return std::make_unique<OvRequest>(model_.create_infer_request(), inputs_);
    });
  }

 private:
  static Port PortOf(const std::string& name, const ov::Output<const ov::Node>& port) {
    Shape shape;
    for (const ov::Dimension& dimension : port.get_partial_shape()) {
      shape.push_back(dimension.is_static() ? dimension.get_length() : -1);
    }
    return {name, FromOv(port.get_element_type()), std::move(shape)};
  }

  ov::CompiledModel model_;
  std::shared_ptr<const Inputs> inputs_;
  std::vector<Port> outputs_;
};

}  // namespace

struct OpenVino::State {
  ov::Core core;
};

// The CPU plugin compiles chains of elementwise operators into "snippets", each of which keeps a
// graph of its own. Without them the layer of a small LLM takes 1.8 MiB less, and runs as fast.
const ov::AnyMap::value_type kWithoutSnippets{"SNIPPETS_MODE", "DISABLE"};

class OvDevice final : public Device {
 public:
  OvDevice(std::shared_ptr<OpenVino::State> state, std::string name)
      : state_(std::move(state)), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }

  // OpenVINO says what is wrong with a value when it compiles something: here, nothing.
  void CheckProperties(const Properties& properties) override {
    if (properties.empty()) return;
    ov::Core& core = state_->core;
    std::vector<std::string_view> known;
    const auto supported = Guarded(ErrorCode::kDevice, Concat("cannot ask ", name_), [&] {
      return core.get_property(name_, ov::supported_properties);
    });
    for (const ov::PropertyName& property : supported) known.emplace_back(property);
    for (const auto& [name, value] : properties) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string nearest = NearestName(name, known);
      throw Error(ErrorCode::kInvalidArgument,
                  Concat(name_, " has no property '", name, "'",
                         nearest.empty() ? "" : Concat("; did you mean '", nearest, "'?")));
    }
    const auto x = std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::PartialShape{1});
    const auto identity = std::make_shared<ov::Model>(ov::OutputVector{x}, ov::ParameterVector{x});
    Guarded(ErrorCode::kInvalidArgument, Concat(name_, " does not accept the properties"), [&] {
      core.compile_model(identity, name_, ov::AnyMap(properties.begin(), properties.end()));
    });
  }

  std::shared_ptr<Function> Compile(const FunctionSource& source,
                                    const Properties& properties) override {
    ov::Core& core = state_->core;
    const std::shared_ptr<ov::Model> model =
        Guarded(ErrorCode::kUnsupported, "OpenVINO does not read the graph", [&] {
          auto read = core.read_model(source.topology, ov::Tensor());
          RestoreNames(*read, source);
          AttachConstants(*read, source);
          CopyInputsToOutputs(*read);
          return read;
        });
    for (const auto& output : model->outputs()) {
      if (output.get_partial_shape().rank().is_dynamic()) {
        throw Error(ErrorCode::kUnsupported,
                    Concat("output '", output.get_any_name(), "' has an unknown rank"));
      }
    }
    return Guarded(ErrorCode::kUnsupported, "OpenVINO does not compile the graph", [&] {
      ov::AnyMap settings(properties.begin(), properties.end());
      if (source.is_compact && name_ == "CPU") settings.insert(kWithoutSnippets);
      return std::make_shared<OvFunction>(core.compile_model(model, name_, settings), source);
    });
  }

 private:
  std::shared_ptr<OpenVino::State> state_;
  std::string name_;
};

OpenVino::OpenVino() : state_(std::make_shared<State>()) {
  AddOperators(state_->core);
}

OpenVino::~OpenVino() = default;

std::vector<std::string> OpenVino::AvailableDevices() const {
  return Guarded(ErrorCode::kDevice, "OpenVINO lists no devices",
                 [&] { return state_->core.get_available_devices(); });
}

std::string OpenVino::Version() {
  return ov::get_openvino_version().buildNumber;
}

std::shared_ptr<Device> OpenVino::GetDevice(const std::string& name) {
  const std::string unknown = Concat("OpenVINO has no device '", name, "'");
  const auto versions = Guarded(ErrorCode::kInvalidArgument, unknown,
                                [&] { return state_->core.get_versions(name); });
  if (versions.empty()) throw Error(ErrorCode::kInvalidArgument, unknown);
  return std::make_shared<OvDevice>(state_, name);
}

}  // namespace tandem

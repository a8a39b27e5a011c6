#include "device/ov_device.h"

#include <algorithm>
#include <openvino/frontend/onnx/extension/conversion.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/openvino.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/strings.h"
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

// Turns a node "tandem.<Op>" of the topology into `Op`.
template <typename Op>
void AddOperator(ov::Core& core) {
  const std::string type = Op::get_type_info_static().name;
  core.add_extension<Op>();
  core.add_extension(std::make_shared<ov::frontend::onnx::ConversionExtension>(
      type, "tandem", [](const ov::frontend::NodeContext& node) -> ov::OutputVector {
        return std::make_shared<Op>(
                   node.get_input(0), node.get_input(1), node.get_attribute<int64_t>("argument"),
                   node.get_attribute<int64_t>("n"), node.get_attribute<int64_t>("k"))
            ->outputs();
      }));
}

std::unordered_map<std::string, std::shared_ptr<ov::op::v0::Parameter>> ParametersByName(
    const ov::Model& model) {
  std::unordered_map<std::string, std::shared_ptr<ov::op::v0::Parameter>> by_name;
  for (const auto& parameter : model.get_parameters()) {
    by_name[parameter->get_friendly_name()] = parameter;
  }
  return by_name;
}

void AttachConstants(ov::Model& model, const FunctionSource& source) {
  const auto parameters = ParametersByName(model);
  for (const auto& [name, tensor] : source.constants) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) continue;  // the front end had no use for it
    // The constant views the tensor's memory and keeps its owner.
    const auto constant = std::make_shared<ov::op::v0::Constant>(ViewAsOv(tensor));
    constant->set_friendly_name(name);
    found->second->output(0).replace(constant->output(0));
    model.remove_parameter(found->second);
  }
  model.validate_nodes_and_infer_types();
}

class OvRequest final : public Request {
 public:
  OvRequest(ov::InferRequest request, const std::vector<Port>& inputs,
            const std::vector<size_t>& order)
      : request_(std::move(request)), inputs_(inputs), order_(order) {}

  void SetInput(size_t input, const Tensor& tensor) override {
    if (order_[input] == kUnused) return;
    CheckFits(inputs_[input], tensor);
    Guarded(ErrorCode::kDevice, Concat("input '", inputs_[input].name, "'"),
            [&] { request_.set_input_tensor(order_[input], ViewAsOv(tensor)); });
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

  static constexpr size_t kUnused = SIZE_MAX;

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
  const std::vector<Port>& inputs_;
  const std::vector<size_t>& order_;
};

class OvFunction final : public Function {
 public:
  OvFunction(ov::CompiledModel model, const FunctionSource& source) : model_(std::move(model)) {
    std::unordered_map<std::string, size_t> places;
    for (size_t i = 0; i < model_.inputs().size(); ++i) {
      places[model_.inputs()[i].get_node()->get_friendly_name()] = i;
    }
    for (const std::string& name : source.inputs) {
      const auto place = places.find(name);
      order_.push_back(place == places.end() ? OvRequest::kUnused : place->second);
      inputs_.push_back(place == places.end() ? Port{name, DataType::kUndefined, {}}
                                              : PortOf(name, model_.inputs()[place->second]));
    }
    if (model_.outputs().size() != source.outputs.size()) {
      throw Error(ErrorCode::kInternal, Concat("OpenVINO made ", model_.outputs().size(),
                                               " outputs, expected ", source.outputs.size()));
    }
    for (size_t i = 0; i < source.outputs.size(); ++i) {
      outputs_.push_back(PortOf(source.outputs[i], model_.outputs()[i]));
    }
  }

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }

  std::unique_ptr<Request> NewRequest() override {
    return Guarded(ErrorCode::kDevice, "cannot make an infer request", [&] {
      return std::make_unique<OvRequest>(model_.create_infer_request(), inputs_, order_);
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
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<size_t> order_;  // of the inputs, in the compiled model
};

}  // namespace

struct OpenVino::State {
  ov::Core core;
};

class OvDevice final : public Device {
 public:
  OvDevice(std::shared_ptr<OpenVino::State> state, std::string name)
      : state_(std::move(state)), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }

  std::shared_ptr<Function> Compile(const FunctionSource& source,
                                    const Properties& properties) override {
    ov::Core& core = state_->core;
    const std::shared_ptr<ov::Model> model =
        Guarded(ErrorCode::kUnsupported, "OpenVINO does not read the graph", [&] {
          auto read = core.read_model(source.topology, ov::Tensor());
          AttachConstants(*read, source);
          return read;
        });
    for (const auto& output : model->outputs()) {
      if (output.get_partial_shape().rank().is_dynamic()) {
        throw Error(ErrorCode::kUnsupported,
                    Concat("output '", output.get_any_name(), "' has an unknown rank"));
      }
    }
    return Guarded(ErrorCode::kUnsupported, "OpenVINO does not compile the graph", [&] {
      const ov::AnyMap settings(properties.begin(), properties.end());
      return std::make_shared<OvFunction>(core.compile_model(model, name_, settings), source);
    });
  }

 private:
  std::shared_ptr<OpenVino::State> state_;
  std::string name_;
};

OpenVino::OpenVino() : state_(std::make_shared<State>()) {
  AddOperator<SharedMatMul>(state_->core);
  AddOperator<SharedGather>(state_->core);
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
  Guarded(ErrorCode::kInvalidArgument, Concat("OpenVINO has no device '", name, "'"),
          [&] { return state_->core.get_versions(name); });
  return std::make_shared<OvDevice>(state_, name);
}

}  // namespace tandem

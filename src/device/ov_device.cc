#include "device/ov_device.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <openvino/frontend/onnx/extension/conversion.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/openvino.hpp>
#include <unordered_map>

#include "base/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "device/op_function.h"
#include "device/ops/attention.h"
#include "device/ops/rms_norm.h"
#include "device/ops/rotary_embedding.h"
#include "device/ops/shared_gather.h"
#include "device/ops/shared_matmul.h"
#include "device/ov_ports.h"
#include "device/ov_rewrites.h"
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
    MatMulSettings settings;
    settings.more_n = node.get_attribute<std::vector<int64_t>>("more_n", {});
    settings.int8 = node.get_attribute<int64_t>("int8", 0) != 0;
    settings.normalizes = node.has_attribute("epsilon");
    settings.epsilon = node.get_attribute<float>("epsilon", 0);
    settings.addends = node.get_attribute<std::vector<int64_t>>("addends", {});
    settings.gate = node.get_attribute<std::string>("gate", "");
    return std::make_shared<SharedMatMul>(inputs, node.get_attribute<int64_t>("argument"),
                                          node.get_attribute<int64_t>("n"),
                                          node.get_attribute<int64_t>("k"), std::move(settings));
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
    std::vector<int64_t> plain(inputs.size());  // q, k, v and perhaps bias
    std::iota(plain.begin(), plain.end(), 0);
    AttentionSettings settings;
    settings.inputs = node.get_attribute<std::vector<int64_t>>("inputs", plain);
    settings.scale = node.get_attribute<float>("scale");
    settings.heads = node.get_attribute<int64_t>("heads", 0);
    settings.kv_heads = node.get_attribute<int64_t>("kv_heads", 0);
    settings.merges_heads = node.get_attribute<int64_t>("merges_heads", 0) != 0;
    settings.is_interleaved = node.get_attribute<int64_t>("is_interleaved", 0) != 0;
    settings.cache = node.get_attribute<int64_t>("cache", -1);
    return std::make_shared<Attention>(inputs, std::move(settings));
  });
  AddOperator<RmsNorm>(core, [](const OutputVector& inputs, const NodeContext& node) {
    return std::make_shared<RmsNorm>(inputs, node.get_attribute<float>("epsilon"));
  });
}

// The front end renames a parameter that is also an output: only its place tells which it is.
void RestoreNames(ov::Model& model, const FunctionSource& source) {
  const ov::ParameterVector& parameters = model.get_parameters();
  if (parameters.size() != source.topology_inputs.size()) {
    throw Error(ErrorCode::kUnsupported,
                Concat("OpenVINO uses ", parameters.size(), " of the inputs ",
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

// The types of Tandem's operators in a model that measures, by name: OpenVINO has one type for all.
using OwnTypes = std::map<std::string, std::string>;

OwnTypes OwnTypesOf(const ov::Model& model) {
  OwnTypes types;
  for (const auto& op : model.get_ops()) {
    if (IsOwnOperator(*op)) types[op->get_friendly_name()] = op->get_type_name();
  }
  return types;
}

class OvRequest final : public Request {
 public:
  OvRequest(ov::InferRequest request, std::shared_ptr<const OvInputs> inputs,
            std::shared_ptr<const OwnTypes> own_types)
      : request_(std::move(request)),
        inputs_(std::move(inputs)),
        own_types_(std::move(own_types)) {}

  void SetInput(size_t input, const Tensor& tensor) override {
    const size_t place = inputs_->places[input];
    if (place == OvInputs::kUnused) return;
    const Tensor fitted = inputs_->Fitted(input, tensor);
    Guarded(ErrorCode::kDevice, Concat("input '", inputs_->ports[input].name, "'"),
            [&] { request_.set_input_tensor(place, ViewAsOv(fitted)); });
  }

  void SetOutput(size_t output, const Tensor& tensor) override {
    Guarded(ErrorCode::kDevice, Concat("output ", output),
            [&] { request_.set_output_tensor(output, ViewAsOv(tensor)); });
  }

  void Run(OpTimes* times) override {
    Guarded(ErrorCode::kDevice, "inference failed", [&] {
      const int64_t start_ns = times == nullptr ? 0 : NowNs();
      request_.infer();
      if (times != nullptr && own_types_) AppendTimes(Since(start_ns), *times);
    });
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
  // OpenVINO says how long its operators took, not when: they are laid one after the other from
  // the start of the run. The CPU plugin (2026.4) says means over all runs of the compiled model,
  // which may be more than this one took.
  void AppendTimes(const Interval& run, OpTimes& times) {
    using std::chrono::nanoseconds;
    const auto infos = request_.get_profiling_info();
    labels_.resize(infos.size());
    int64_t sum_ns = 0;
    for (const ov::ProfilingInfo& info : infos) sum_ns += nanoseconds(info.real_time).count();
    const double scale = sum_ns > run.duration_ns
                             ? static_cast<double>(run.duration_ns) / static_cast<double>(sum_ns)
                             : 1;
    int64_t start_ns = run.start_ns;
    for (size_t i = 0; i < infos.size(); ++i) {
      const ov::ProfilingInfo& info = infos[i];
      if (info.status != ov::ProfilingInfo::Status::EXECUTED) continue;
      auto& label = labels_[i];
      if (!label || label->name != info.node_name || label->kernel != info.exec_type) {
        OpLabel made{info.node_name, info.node_type, kOnOpenVino, info.exec_type};
        if (const auto own = own_types_->find(info.node_name); own != own_types_->end()) {
          made.type = own->second;
          made.executor = kInOpenVino;
        }
        label = std::make_shared<const OpLabel>(std::move(made));
      }
      const auto duration_ns =
          static_cast<int64_t>(static_cast<double>(nanoseconds(info.real_time).count()) * scale);
      times.push_back({label, {start_ns, duration_ns}});
      start_ns += duration_ns;
    }
  }

  ov::InferRequest request_;
  std::shared_ptr<const OvInputs> inputs_;
  std::shared_ptr<const OwnTypes> own_types_;           // null: the model does not measure
  std::vector<std::shared_ptr<const OpLabel>> labels_;  // by operator of the last measured run
};

class OvFunction final : public Function {
 public:
  OvFunction(ov::CompiledModel model, const FunctionSource& source,
             std::shared_ptr<const OwnTypes> own_types)
      : model_(std::move(model)),
        own_types_(std::move(own_types)),
        inputs_(std::make_shared<const OvInputs>(source.inputs, model_.inputs())),
        outputs_(OvOutputs(source.outputs, model_.outputs())) {}

  const std::vector<Port>& inputs() const override { return inputs_->ports; }
  const std::vector<Port>& outputs() const override { return outputs_; }

  int threads() const override {
    return Guarded(ErrorCode::kDevice, "cannot ask for the number of threads",
                   [&] { return model_.get_property(ov::inference_num_threads); });
  }

  std::unique_ptr<Request> NewRequest() override {
    return Guarded(ErrorCode::kDevice, "cannot make an infer request", [&] {
      return std::make_unique<OvRequest>(model_.create_infer_request(), inputs_, own_types_);
    });
  }

 private:
  ov::CompiledModel model_;
  std::shared_ptr<const OwnTypes> own_types_;
  std::shared_ptr<const OvInputs> inputs_;
  std::vector<Port> outputs_;
};

}  // namespace

struct OpenVino::State {
  ov::Core core;
};

// The CPU plugin compiles chains of elementwise operators into "snippets", each of which keeps a
// graph of its own. Without them the layer of a small LLM takes 1.8 MiB less, and runs as fast.
const ov::AnyMap::value_type kWithoutSnippets{"SNIPPETS_MODE", "DISABLE"};

// The CPU plugin keeps what it generated for each operator and shape that it met, 5000 of each kind
// of operator: without end, for who has another shape each time. Here it keeps some shapes' worth.
ov::AnyMap::value_type KeptShapes(const ov::Model& model) {
  constexpr size_t kShapes = 4;
  return {"CPU_RUNTIME_CACHE_CAPACITY", std::to_string(kShapes * model.get_ops().size())};
}

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
    Guarded(ErrorCode::kInvalidArgument, Concat(name_, " does not accept the properties"),
            [&] { CompileIdentity(properties); });
  }

  std::shared_ptr<Function> Compile(const FunctionSource& source,
                                    const Properties& properties) override {
    ov::Core& core = state_->core;
    const std::shared_ptr<ov::Model> model =
        Guarded(ErrorCode::kUnsupported, "OpenVINO does not read the graph", [&] {
          auto read = core.read_model(source.topology, ov::Tensor());
          RestoreNames(*read, source);
          AttachConstants(*read, source);
          RewriteWhatIsComputedWrongly(*read);
          return read;
        });
    for (const auto& output : model->outputs()) {
      if (output.get_partial_shape().rank().is_dynamic()) {
        throw Error(ErrorCode::kUnsupported,
                    Concat("output '", output.get_any_name(), "' has an unknown rank"));
      }
    }
    if (name_ == "CPU" && HasOwnOperatorsOnly(*model)) {
      return MakeOpFunction(model, source, Threads(properties));
    }
    return Guarded(ErrorCode::kUnsupported, "OpenVINO does not compile the graph", [&] {
      ov::AnyMap settings(properties.begin(), properties.end());
      if (source.is_compact && name_ == "CPU") settings.insert(kWithoutSnippets);
      if (model->is_dynamic() && name_ == "CPU") settings.insert(KeptShapes(*model));
      const auto profiling = settings.find(kProfilingProperty);
      std::shared_ptr<const OwnTypes> own_types;
      if (profiling != settings.end() && profiling->second.as<bool>()) {
        own_types = std::make_shared<const OwnTypes>(OwnTypesOf(*model));
      }
      return std::make_shared<OvFunction>(core.compile_model(model, name_, settings), source,
                                          std::move(own_types));
    });
  }

 private:
  ov::CompiledModel CompileIdentity(const Properties& properties) {
    const auto x = std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::PartialShape{1});
    const auto identity = std::make_shared<ov::Model>(ov::OutputVector{x}, ov::ParameterVector{x});
    return state_->core.compile_model(identity, name_,
                                      ov::AnyMap(properties.begin(), properties.end()));
  }

  // Threads that OpenVINO runs a model on with these properties.
  int Threads(const Properties& properties) {
    const std::lock_guard lock(mutex_);
    const auto [threads, is_new] = threads_.try_emplace(properties, 0);
    if (is_new) {
      threads->second = Guarded(ErrorCode::kDevice, "cannot ask for the number of threads", [&] {
        return std::max(1, CompileIdentity(properties).get_property(ov::inference_num_threads));
      });
    }
    return threads->second;
  }

  std::shared_ptr<OpenVino::State> state_;
  std::string name_;
  std::mutex mutex_;
  std::map<Properties, int> threads_;
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

#include "ep/node_compute.h"

#include <algorithm>

#include "base/strings.h"
#include "ep/ep_profiler.h"
#include "ep/ort_threads.h"

namespace tandem {
namespace {

// The tensors of one OrtKernelContext.
class KernelTensors final : public RunTensors {
 public:
  KernelTensors(const OrtFunctions& ort, OrtKernelContext* context,
                const std::vector<size_t>& inputs, const std::vector<size_t>& outputs)
      : ort_(ort), context_(context), inputs_(inputs), outputs_(outputs) {}

  Tensor Input(size_t index) override {
    const OrtValue* value = nullptr;
    Check(ort_.api.KernelContext_GetInput(context_, inputs_[index], &value));
    const void* data = nullptr;
    Check(ort_.api.GetTensorData(value, &data));
    Tensor tensor = TypeAndShape(value);
    tensor.data = static_cast<std::byte*>(const_cast<void*>(data));  // read only
    return tensor;
  }

  Tensor Output(size_t index, const Shape& shape) override {
    OrtValue* value = nullptr;
    Check(ort_.api.KernelContext_GetOutput(context_, outputs_[index], shape.data(), shape.size(),
                                           &value));
    void* data = nullptr;
    Check(ort_.api.GetTensorMutableData(value, &data));
    Tensor tensor = TypeAndShape(value);
    tensor.data = static_cast<std::byte*>(data);
    return tensor;
  }

 private:
  void Check(OrtStatus* status) const { ThrowIfFailed(ort_.api, status); }

  Tensor TypeAndShape(const OrtValue* value) const {
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    Tensor tensor;
    OrtTensorTypeAndShapeInfo* info = nullptr;
    Check(ort_.api.GetTensorTypeAndShape(value, &info));
    const std::unique_ptr<OrtTensorTypeAndShapeInfo,
                          decltype(ort_.api.ReleaseTensorTypeAndShapeInfo)>
        release(info, ort_.api.ReleaseTensorTypeAndShapeInfo);
    size_t rank = 0;
    Check(ort_.api.GetTensorElementType(info, &type));
    Check(ort_.api.GetDimensionsCount(info, &rank));
    tensor.shape.resize(rank);
    Check(ort_.api.GetDimensions(info, tensor.shape.data(), rank));
    tensor.type = DataTypeFromOnnx(type);
    return tensor;
  }

  const OrtFunctions& ort_;
  OrtKernelContext* context_;
  const std::vector<size_t>& inputs_;
  const std::vector<size_t>& outputs_;
};

size_t Place(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw Error(ErrorCode::kUnsupported, Concat("ONNX Runtime's fused node has no value '", name,
                                                "'; it has ", Join(names, ", ")));
  }
  return static_cast<size_t>(found - names.begin());
}

}  // namespace

NodeCompute::NodeCompute(const OrtFunctions& ort, std::shared_ptr<const Program> program,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, size_t limit, Rethread rethread,
                         std::shared_ptr<ProfileFile> profile, std::string label)
    : OrtNodeComputeInfo{},
      ort_(ort),
      program_(std::move(program)),
      limit_(limit),
      rethread_(std::move(rethread)),
      profile_(std::move(profile)),
      label_(std::move(label)) {
  for (const std::string& name : program_->inputs) inputs_.push_back(Place(inputs, name));
  for (const auto& output : program_->outputs) outputs_.push_back(Place(outputs, output.name));
  ort_version_supported = ORT_API_VERSION;
  CreateState = CreateStateImpl;
  Compute = ComputeImpl;
  ReleaseState = ReleaseStateImpl;
}

OrtStatus* ORT_API_CALL NodeCompute::CreateStateImpl(OrtNodeComputeInfo* self,
                                                     OrtNodeComputeContext*,
                                                     void** state) noexcept {
  *state = self;  // all state is in the pool
  return nullptr;
}

OrtStatus* ORT_API_CALL NodeCompute::ComputeImpl(OrtNodeComputeInfo* self, void*,
                                                 OrtKernelContext* context) noexcept {
  auto& node = *static_cast<NodeCompute*>(self);
  return Guarded(node.ort_.api, [&] {
    std::call_once(node.prepared_, [&] { node.Prepare(context); });
    KernelTensors tensors(node.ort_, context, node.inputs_, node.outputs_);
    Profile* const ort_profile = OrtProfile();
    if (node.profile_ || ort_profile != nullptr) {
      node.RunProfiled(tensors, ort_profile);
    } else {
      node.pool_->Run(tensors);
    }
  });
}

void NodeCompute::RunProfiled(RunTensors& tensors, Profile* ort_profile) {
  RunTimes times;
  pool_->Run(tensors, &times);
  if (ort_profile != nullptr) ort_profile->Add(label_, program_, times);
  if (profile_) profile_->profile().Add(label_, program_, std::move(times));
}

void ORT_API_CALL NodeCompute::ReleaseStateImpl(OrtNodeComputeInfo*, void*) noexcept {}

void NodeCompute::Prepare(const OrtKernelContext* context) {
  if (rethread_) {
    int most = 1;
    for (const auto& function : program_->functions) {
      most = std::max(most, function.function->threads());
    }
    const int threads = CountThreads(ort_, context, most);
    if (threads < most) program_ = rethread_(*program_, threads);
  }
  pool_ = std::make_unique<RequestPool>(program_, limit_);
}

}  // namespace tandem

#include "run/program_request.h"

#include <algorithm>
#include <cstring>

namespace tandem {
namespace {

void Copy(const Tensor& from, const Tensor& to) {
  if (from.bytes() > 0) std::memcpy(to.data, from.data, from.bytes());
}

bool Overlap(const Tensor& a, const Tensor& b) {
  return a.data < b.data + b.bytes() && b.data < a.data + a.bytes();
}

}  // namespace

ProgramRequest::ProgramRequest(std::shared_ptr<const Program> program)
    : program_(std::move(program)),
      reads_(program_->values.size()),
      current_(program_->values.size()) {
  requests_.resize(program_->functions.size());
  for (const Program::Call& call : program_->calls) {
    for (size_t value : call.inputs) ++reads_[value];
    for (const Program::Call::Cache& cache : call.caches) {
      if (cache.past != Program::Call::Cache::kNone) ++reads_[cache.past];
    }
    auto& requests = requests_[call.function];
    while (requests.size() <= call.request) {
      requests.push_back(program_->functions[call.function].function->NewRequest());
    }
  }
  for (uint64_t bytes : program_->buffer_bytes) buffers_.emplace_back(bytes);
  for (size_t i = 0; i < current_.size(); ++i) {
    const Program::Value& value = program_->values[i];
    if (value.kind == Program::ValueKind::kConstant) current_[i] = value.constant;
    if (value.kind == Program::ValueKind::kBuffer) {
      current_[i] = {value.type, value.shape, buffers_[value.index].data(), nullptr};
    }
  }
}

uint64_t ProgramRequest::buffer_bytes() const {
  uint64_t bytes = 0;
  for (const AlignedBuffer& buffer : buffers_) bytes += buffer.size();
  return bytes;
}

void ProgramRequest::Run(RunTensors& tensors, RunTimes* times) {
  const int64_t start_ns = times == nullptr ? 0 : NowNs();
  if (times != nullptr) times->calls.reserve(program_->calls.size());
  inputs_.clear();
  late_outputs_.clear();
  scratch_.clear();
  for (size_t i = 0; i < program_->inputs.size(); ++i) inputs_.push_back(tensors.Input(i));
  for (size_t i = 0; i < current_.size(); ++i) {
    const Program::Value& value = program_->values[i];
    if (value.kind == Program::ValueKind::kInput) current_[i] = inputs_[value.index];
  }
  BindStaticOutputs(tensors);
  for (size_t call = 0; call < program_->calls.size(); ++call) {
    if (times == nullptr) {
      RunCall(program_->calls[call], tensors, nullptr);
    } else {
      MeasureCall(call, tensors, *times);
    }
  }
  for (const LateOutput& late : late_outputs_) Copy(late.result, late.caller);
  if (times != nullptr) times->time = Since(start_ns);
}

void ProgramRequest::MeasureCall(size_t call, RunTensors& tensors, RunTimes& times) {
  RunTimes::Call& measured = times.calls.emplace_back();
  measured.number = call;
  const int64_t start_ns = NowNs();
  RunCall(program_->calls[call], tensors, &measured.ops);
  measured.time = Since(start_ns);
}

void ProgramRequest::BindStaticOutputs(RunTensors& tensors) {
  for (size_t i = 0; i < current_.size(); ++i) {
    const Program::Value& value = program_->values[i];
    if (value.kind != Program::ValueKind::kOutput || !IsStatic(value.shape)) continue;
    Tensor tensor = tensors.Output(value.index, value.shape);
    if (!MayWriteInPlace(value.index, tensor)) {
      const Tensor apart = AllocateTensor(value.type, value.shape);
      late_outputs_.push_back({tensor, apart});
      tensor = apart;
    }
    current_[i] = tensor;
  }
}

bool ProgramRequest::MayWriteInPlace(size_t output, const Tensor& tensor) const {
  for (size_t input = 0; input < inputs_.size(); ++input) {
    if (!Overlap(inputs_[input], tensor)) continue;
    const auto& pairs = program_->in_place;
    const bool is_same = inputs_[input].data == tensor.data;
    if (!is_same ||
        std::find(pairs.begin(), pairs.end(), std::pair{input, output}) == pairs.end()) {
      return false;
    }
  }
  return true;
}

// Asks the request for memory when the attention knows how much.
class ProgramRequest::CallCache final : public KvCache {
 public:
  CallCache(ProgramRequest& request, const Program::Call::Cache& values, RunTensors& tensors)
      : request_(request), values_(values), tensors_(tensors) {}

  Tensor Past() override {
    return values_.past == Program::Call::Cache::kNone ? Tensor{} : request_.current_[values_.past];
  }

  Tensor Present(const Shape& shape) override {
    return request_.CacheMemory(values_, shape, tensors_);
  }

 private:
  ProgramRequest& request_;
  const Program::Call::Cache& values_;
  RunTensors& tensors_;
};

void ProgramRequest::RunCall(const Program::Call& call, RunTensors& tensors, OpTimes* times) {
  Request& request = *requests_[call.function][call.request];
  for (size_t i = 0; i < call.inputs.size(); ++i) request.SetInput(i, current_[call.inputs[i]]);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (IsStatic(program_->values[call.outputs[i]].shape)) {
      request.SetOutput(i, current_[call.outputs[i]]);
    }
  }
  std::vector<CallCache> caches;
  caches.reserve(call.caches.size());
  cache_addresses_.clear();
  for (const Program::Call::Cache& values : call.caches) {
    cache_addresses_.push_back(AddressOf(caches.emplace_back(*this, values, tensors)));
  }
  if (!caches.empty()) {
    const auto elements = static_cast<int64_t>(caches.size() * kAddressElements);
    auto* addresses = reinterpret_cast<std::byte*>(cache_addresses_.data());
    request.SetInput(call.inputs.size(), {DataType::kInt32, {elements}, addresses, nullptr});
  }
  request.Run(times);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (!IsStatic(program_->values[call.outputs[i]].shape)) {
      TakeResult(call.outputs[i], request.Output(i), tensors);
    }
  }
}

Tensor ProgramRequest::CacheMemory(const Program::Call::Cache& cache, const Shape& shape,
                                   RunTensors& tensors) {
  constexpr size_t kNone = Program::Call::Cache::kNone;
  const Program::Value* present =
      cache.present == kNone ? nullptr : &program_->values[cache.present];
  if (present == nullptr || present->kind != Program::ValueKind::kOutput) {
    const DataType type = present != nullptr    ? present->type
                          : cache.past != kNone ? current_[cache.past].type
                                                : DataType::kFloat32;
    return scratch_.emplace_back(AllocateTensor(type, shape));
  }
  Tensor tensor = tensors.Output(present->index, shape);
  for (const Tensor& input : inputs_) {
    if (!Overlap(input, tensor)) continue;
    // Only the past itself is changed in place, when it has room for the new rows and nobody else
    // reads it.
    const bool is_past = cache.past != kNone && reads_[cache.past] == 1 &&
                         input.data == tensor.data && input.data == current_[cache.past].data &&
                         input.shape == shape;
    if (is_past) continue;
    const Tensor apart = AllocateTensor(present->type, shape);
    late_outputs_.push_back({tensor, apart});
    tensor = apart;
    break;
  }
  return current_[cache.present] = tensor;
}

void ProgramRequest::TakeResult(size_t value, const Tensor& result, RunTensors& tensors) {
  const Program::Value& target = program_->values[value];
  current_[value] = result;
  if (target.kind != Program::ValueKind::kOutput) {
    if (!target.must_copy) return;
    current_[value] = AllocateTensor(result.type, result.shape);
    return Copy(result, current_[value]);
  }
  const Tensor caller = tensors.Output(target.index, result.shape);
  if (MayWriteInPlace(target.index, caller)) {
    Copy(result, caller);
    current_[value] = caller;
  } else {
    const Tensor apart = AllocateTensor(result.type, result.shape);
    Copy(result, apart);
    late_outputs_.push_back({caller, apart});
    current_[value] = apart;
  }
}

}  // namespace tandem

#pragma once

#include <functional>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace tandem {

// A function whose arithmetic is a lambda: what a device would have compiled, without a device. It
// counts what is done to its requests, and fails on demand.
class FakeFunction : public Function {
 public:
  // Reads the inputs and writes the outputs; for an output with a dynamic shape it calls `resize`
  // first, which gives it the request's own memory.
  struct Run {
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    std::function<Tensor(size_t output, const Shape& shape)> resize;
  };

  FakeFunction(std::vector<Port> inputs, std::vector<Port> outputs, std::function<void(Run&)> body)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)), body_(std::move(body)) {}

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }

  int threads() const override { return 1; }

  std::unique_ptr<Request> NewRequest() override {
    ++requests;
    return std::make_unique<FakeRequest>(*this);
  }

  int requests = 0;
  int runs = 0;
  int fail_run = 0;  // this run throws; 0: none

 private:
  class FakeRequest : public Request {
   public:
    explicit FakeRequest(FakeFunction& function) : function_(function) {
      run_.inputs.resize(function.inputs_.size());
      run_.outputs.resize(function.outputs_.size());
      own_.resize(function.outputs_.size());
      run_.resize = [this](size_t output, const Shape& shape) {
        own_[output] = AllocateTensor(function_.outputs_[output].type, shape);
        return run_.outputs[output] = own_[output];
      };
    }

    void SetInput(size_t input, const Tensor& tensor) override { run_.inputs[input] = tensor; }
    void SetOutput(size_t output, const Tensor& tensor) override { run_.outputs[output] = tensor; }
    Tensor Output(size_t output) override { return run_.outputs[output]; }

    void Run(OpTimes* times) override {
      const int64_t start_ns = NowNs();
      if (++function_.runs == function_.fail_run) throw Error(ErrorCode::kDevice, "as told to");
      // A device overwrites what its request made before.
      for (Tensor& tensor : own_) {
        if (tensor.data != nullptr) std::fill_n(tensor.data, tensor.bytes(), std::byte{0xEE});
      }
      function_.body_(run_);
      if (times != nullptr) times->push_back({function_.label_, Since(start_ns)});
    }

   private:
    FakeFunction& function_;
    FakeFunction::Run run_;
    std::vector<Tensor> own_;
  };

  std::shared_ptr<const OpLabel> label_ =
      std::make_shared<const OpLabel>(OpLabel{"fake", "Fake", kOnTandem, ""});
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::function<void(Run&)> body_;
};

inline float* Floats(const Tensor& tensor) {
  return reinterpret_cast<float*>(tensor.data);
}

}  // namespace tandem

#include "device/op_function.h"

#include <tbb/task_arena.h>

#include <algorithm>
#include <map>
#include <openvino/op/constant.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/op/result.hpp>
#include <set>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "device/ops/shared_matmul.h"
#include "device/ov_ports.h"
#include "device/ov_types.h"

namespace tandem {
namespace {

// Where a tensor is in a run: numbered over inputs, constants and results of operators.
using Place = size_t;

// An operator with what it reads and makes.
struct Step {
  const ov::Node* op;
  std::vector<Place> inputs;
  std::vector<Place> outputs;
};

// The operators of a model in order, and where their tensors are. Results that are not alive at one
// time share a place.
struct Steps {
  std::vector<Step> steps;
  size_t inputs = 0;  // places [0, inputs) are those of the model
  std::map<Place, ov::Tensor> constants;
  std::map<Place, ov::element::Type> made;  // places of results, with their type
  std::vector<Place> outputs;               // of the model
};

using Value = ov::Output<ov::Node>;

// The last step that reads each value; a model's outputs are read behind all.
std::map<Value, size_t> LastReads(const ov::NodeVector& ops) {
  std::map<Value, size_t> last;
  for (size_t i = 0; i < ops.size(); ++i) {
    const bool is_result = ov::is_type<ov::op::v0::Result>(ops[i]);
    for (const auto& input : ops[i]->input_values()) {
      last[input] = std::max(last[input], is_result ? ops.size() : i);
    }
  }
  return last;
}

Steps StepsOf(const ov::Model& model) {
  Steps result;
  std::map<Value, Place> places;
  for (const auto& parameter : model.get_parameters()) {
    places[parameter->output(0)] = result.inputs++;
  }
  Place next = result.inputs;
  const ov::NodeVector ops = model.get_ordered_ops();
  const auto last_reads = LastReads(ops);
  std::map<size_t, std::vector<Place>> ends;  // by step: places that are free behind it
  std::map<ov::element::Type, std::vector<Place>> free;
  for (size_t i = 0; i < ops.size(); ++i) {
    const ov::Node& op = *ops[i];
    if (const auto* constant = ov::as_type<const ov::op::v0::Constant>(&op)) {
      places[ops[i]->output(0)] = next;
      result.constants[next++] = ov::Tensor(constant->get_element_type(), constant->get_shape(),
                                            const_cast<void*>(constant->get_data_ptr()));
    } else if (IsOwnOperator(op)) {
      Step step{&op, {}, {}};
      for (const auto& input : op.input_values()) step.inputs.push_back(places.at(input));
      for (const auto& output : ops[i]->outputs()) {
        const ov::element::Type type = output.get_element_type();
        const auto last = last_reads.find(output);
        const size_t end = last == last_reads.end() ? i : last->second;
        std::vector<Place>& reusable = free[type];
        Place place = next;
        if (end < ops.size() && !reusable.empty()) {
          place = reusable.back();
          reusable.pop_back();
        } else {
          result.made[next++] = type;
        }
        places[output] = place;
        step.outputs.push_back(place);
        if (end < ops.size()) ends[end].push_back(place);
      }
      result.steps.push_back(std::move(step));
    }
    for (Place place : ends[i]) free[result.made.at(place)].push_back(place);
  }
  for (const auto& output : model.get_results()) {
    result.outputs.push_back(places.at(output->input_value(0)));
  }
  return result;
}

class OpRequest final : public Request {
 public:
  OpRequest(std::shared_ptr<const ov::Model> model, std::shared_ptr<const Steps> steps,
            std::shared_ptr<const OvInputs> inputs, std::shared_ptr<tbb::task_arena> arena)
      : model_(std::move(model)),
        steps_(std::move(steps)),
        inputs_(std::move(inputs)),
        arena_(std::move(arena)) {
    tensors_.resize(steps_->inputs + steps_->constants.size() + steps_->made.size());
    for (const auto& [place, tensor] : steps_->constants) tensors_[place] = tensor;
    for (const auto& [place, type] : steps_->made) tensors_[place] = ov::Tensor(type, {0});
    for (const Step& step : steps_->steps) {
      step_inputs_.emplace_back(step.inputs.size());
      step_outputs_.emplace_back(step.outputs.size());
    }
  }

  void SetInput(size_t input, const Tensor& tensor) override {
    const size_t place = inputs_->places[input];
    if (place == OvInputs::kUnused) return;
    tensors_[place] = ViewAsOv(inputs_->Fitted(input, tensor));
  }

  void SetOutput(size_t output, const Tensor& tensor) override {
    tensors_[steps_->outputs[output]] = ViewAsOv(tensor);
  }

  void Run(OpTimes* times) override {
    try {
      arena_->execute([this, times] {
        for (size_t i = 0; i < steps_->steps.size(); ++i) {
          if (times == nullptr) {
            RunStep(i);
          } else {
            times->push_back(MeasureStep(i));
          }
        }
      });
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(ErrorCode::kDevice, Concat("inference failed: ", error.what()));
    }
  }

  Tensor Output(size_t output) override {
    ov::Tensor& tensor = tensors_[steps_->outputs[output]];
    const ov::Shape& shape = tensor.get_shape();
    return {FromOv(tensor.get_element_type()), Shape(shape.begin(), shape.end()),
            static_cast<std::byte*>(tensor.data()), nullptr};
  }

 private:
  void RunStep(size_t index) {
    const Step& step = steps_->steps[index];
    ov::TensorVector& inputs = step_inputs_[index];
    ov::TensorVector& outputs = step_outputs_[index];
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = tensors_[step.inputs[i]];
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = tensors_[step.outputs[i]];
    step.op->evaluate(outputs, inputs);
  }

  OpTime MeasureStep(size_t index) {
    const ov::Node& op = *steps_->steps[index].op;
    labels_.resize(steps_->steps.size());
    std::shared_ptr<const OpLabel>& label = labels_[index];
    if (!label) {
      label = std::make_shared<const OpLabel>(
          OpLabel{op.get_friendly_name(), op.get_type_name(), kOnTandem, ""});
    }
    const int64_t start_ns = NowNs();
    RunStep(index);
    OpTime measured{label, Since(start_ns)};
    const ov::Shape& shape = step_outputs_[index].front().get_shape();
    measured.shape.assign(shape.begin(), shape.end());
    if (const auto* product = ov::as_type<const SharedMatMul>(&op)) {
      measured.weight_bytes = product->WeightBytes(step_inputs_[index].back());
    }
    return measured;
  }

  std::shared_ptr<const ov::Model> model_;  // keeps the operators and constants
  std::shared_ptr<const Steps> steps_;
  std::shared_ptr<const OvInputs> inputs_;
  std::shared_ptr<tbb::task_arena> arena_;
  ov::TensorVector tensors_;  // by place
  // By step: kept, so that a run allocates nothing.
  std::vector<ov::TensorVector> step_inputs_;
  std::vector<ov::TensorVector> step_outputs_;
  std::vector<std::shared_ptr<const OpLabel>> labels_;  // from the first measured run on
};

class OpFunction final : public Function {
 public:
  OpFunction(std::shared_ptr<const ov::Model> model, const FunctionSource& source, int threads)
      : model_(std::move(model)),
        steps_(std::make_shared<const Steps>(StepsOf(*model_))),
        inputs_(std::make_shared<const OvInputs>(source.inputs, model_->inputs())),
        outputs_(OvOutputs(source.outputs, model_->outputs())),
        threads_(threads),
        arena_(std::make_shared<tbb::task_arena>(threads)) {}

  const std::vector<Port>& inputs() const override { return inputs_->ports; }
  const std::vector<Port>& outputs() const override { return outputs_; }
  int threads() const override { return threads_; }

  std::unique_ptr<Request> NewRequest() override {
    return std::make_unique<OpRequest>(model_, steps_, inputs_, arena_);
  }

 private:
  std::shared_ptr<const ov::Model> model_;
  std::shared_ptr<const Steps> steps_;
  std::shared_ptr<const OvInputs> inputs_;
  std::vector<Port> outputs_;
  int threads_;
  std::shared_ptr<tbb::task_arena> arena_;
};

}  // namespace

bool IsOwnOperator(const ov::Node& node) {
  const char* version = node.get_type_info().version_id;
  return version != nullptr && std::string_view(version) == "tandem";
}

bool HasOwnOperatorsOnly(const ov::Model& model) {
  std::set<Value> results;
  for (const auto& op : model.get_ordered_ops()) {
    if (ov::is_type<ov::op::v0::Result>(op)) {
      // Each has memory of its own, and something writes it.
      const Value value = op->input_value(0);
      if (!IsOwnOperator(*value.get_node()) || !results.insert(value).second) return false;
    } else if (!ov::is_type<ov::op::v0::Parameter>(op) && !ov::is_type<ov::op::v0::Constant>(op) &&
               !IsOwnOperator(*op)) {
      return false;
    }
  }
  return true;
}

std::shared_ptr<Function> MakeOpFunction(const std::shared_ptr<const ov::Model>& model,
                                         const FunctionSource& source, int threads) {
  if (!HasOwnOperatorsOnly(*model)) return nullptr;
  return std::make_shared<OpFunction>(model, source, threads);
}

}  // namespace tandem

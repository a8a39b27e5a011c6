#include "run/host_function.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/strings.h"
#include "graph/origins.h"

namespace tandem {
namespace {

// A value while it is computed: integers and booleans alike in 64 bits.
struct Integers {
  Shape shape;
  std::vector<int64_t> values;
};

Integers Read(DataType type, const Shape& shape, const std::byte* data) {
  Integers read{shape, std::vector<int64_t>(ElementCount(shape))};
  for (size_t i = 0; i < read.values.size(); ++i) {
    if (type == DataType::kInt64) {
      std::memcpy(&read.values[i], data + i * sizeof(int64_t), sizeof(int64_t));
    } else if (type == DataType::kInt32) {
      int32_t value = 0;
      std::memcpy(&value, data + i * sizeof(value), sizeof(value));
      read.values[i] = value;
    } else {
      read.values[i] = data[i] != std::byte{0};
    }
  }
  return read;
}

void Write(const Integers& from, const Tensor& to) {
  for (size_t i = 0; i < from.values.size(); ++i) {
    const int64_t value = from.values[i];
    if (to.type == DataType::kInt64) {
      std::memcpy(to.data + i * sizeof(value), &value, sizeof(value));
    } else if (to.type == DataType::kInt32) {
      const auto narrow = static_cast<int32_t>(value);
      std::memcpy(to.data + i * sizeof(narrow), &narrow, sizeof(narrow));
    } else if (to.type == DataType::kFloat32) {
      const auto real = static_cast<float>(value);
      std::memcpy(to.data + i * sizeof(real), &real, sizeof(real));
    } else {
      to.data[i] = std::byte{value != 0};
    }
  }
}

// What a value of this type can hold: int32 wraps around, bool is 0 or 1.
int64_t Fit(DataType type, int64_t value) {
  if (type == DataType::kInt32) return static_cast<int32_t>(value);
  return type == DataType::kBool ? int64_t{value != 0} : value;
}

// Arithmetic that wraps around instead of being undefined.
int64_t Add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t Subtract(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t Multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

using Binary = int64_t (*)(int64_t, int64_t);

// The elementwise operators.
const std::map<std::string, Binary, std::less<>>& BinaryOps() {
  static const std::map<std::string, Binary, std::less<>> ops{
      {"Add", Add},
      {"Sub", Subtract},
      {"Mul", Multiply},
      {"Max", [](int64_t a, int64_t b) { return std::max(a, b); }},
      {"Min", [](int64_t a, int64_t b) { return std::min(a, b); }},
      {"Equal", [](int64_t a, int64_t b) { return int64_t{a == b}; }},
      {"Less", [](int64_t a, int64_t b) { return int64_t{a < b}; }},
      {"LessOrEqual", [](int64_t a, int64_t b) { return int64_t{a <= b}; }},
      {"Greater", [](int64_t a, int64_t b) { return int64_t{a > b}; }},
      {"GreaterOrEqual", [](int64_t a, int64_t b) { return int64_t{a >= b}; }}};
  return ops;
}

[[noreturn]] void Fail(const Node& node, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, Concat(node.op_type, " '", node.name, "': ", why));
}

// NumPy's broadcasting: https://github.com/onnx/onnx/blob/main/docs/Broadcasting.md
Shape BroadcastShape(const Node& node, const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) {
      Fail(node, Concat("cannot broadcast ", ShapeText(a), " and ", ShapeText(b)));
    }
    shape[shape.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return shape;
}

// Position in a tensor of `shape` of element `index` of the broadcast `result`.
size_t BroadcastIndex(const Shape& shape, const Shape& result, size_t index) {
  size_t position = 0;
  size_t stride = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto size = static_cast<size_t>(result[result.size() - 1 - i]);
    const auto own = static_cast<size_t>(shape[shape.size() - 1 - i]);
    position += (own == 1 ? 0 : index % size) * stride;
    stride *= own;
    index /= size;
  }
  return position;
}

Integers Elementwise(const Node& node, Binary op, const Integers& a, const Integers& b) {
  Integers result{BroadcastShape(node, a.shape, b.shape), {}};
  result.values.resize(ElementCount(result.shape));
  for (size_t i = 0; i < result.values.size(); ++i) {
    result.values[i] = op(a.values[BroadcastIndex(a.shape, result.shape, i)],
                          b.values[BroadcastIndex(b.shape, result.shape, i)]);
  }
  return result;
}

// Axes from the input or attribute of this name, not negative and ascending.
std::vector<size_t> Axes(const Node& node, const Integers* input, size_t rank) {
  std::vector<int64_t> axes = input != nullptr ? input->values : IntsAttribute(node, "axes");
  std::vector<size_t> positive;
  for (int64_t axis : axes) {
    if (axis < 0) axis += static_cast<int64_t>(rank);
    if (axis < 0 || axis >= static_cast<int64_t>(rank)) Fail(node, Concat("axis ", axis));
    positive.push_back(static_cast<size_t>(axis));
  }
  std::sort(positive.begin(), positive.end());
  return positive;
}

Integers Unsqueeze(const Node& node, Integers data, const Integers* axes) {
  const size_t added = axes != nullptr ? axes->values.size() : IntsAttribute(node, "axes").size();
  for (size_t axis : Axes(node, axes, data.shape.size() + added)) {
    data.shape.insert(data.shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  }
  return data;
}

Integers Squeeze(const Node& node, Integers data, const Integers* axes) {
  std::vector<size_t> removed = Axes(node, axes, data.shape.size());
  if (removed.empty()) {
    for (size_t i = 0; i < data.shape.size(); ++i) {
      if (data.shape[i] == 1) removed.push_back(i);
    }
  }
  for (auto axis = removed.rbegin(); axis != removed.rend(); ++axis) {
    if (data.shape[*axis] != 1) Fail(node, Concat("dimension ", *axis, " is not 1"));
    data.shape.erase(data.shape.begin() + static_cast<std::ptrdiff_t>(*axis));
  }
  return data;
}

Integers ReduceSum(const Node& node, const Integers& data, const Integers* axes_input) {
  std::vector<size_t> axes = Axes(node, axes_input, data.shape.size());
  if (axes.empty()) {
    if (IntAttribute(node, "noop_with_empty_axes", 0) != 0) return data;
    for (size_t i = 0; i < data.shape.size(); ++i) axes.push_back(i);
  }
  Integers sum{data.shape, {}};
  for (size_t axis : axes) sum.shape[axis] = 1;
  sum.values.resize(ElementCount(sum.shape));
  for (size_t i = 0; i < data.values.size(); ++i) {
    int64_t& element = sum.values[BroadcastIndex(sum.shape, data.shape, i)];
    element = Add(element, data.values[i]);
  }
  if (IntAttribute(node, "keepdims", 1) != 0) return sum;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    sum.shape.erase(sum.shape.begin() + static_cast<std::ptrdiff_t>(*axis));
  }
  return sum;
}

Integers Range(const Node& node, const Integers& start, const Integers& limit,
               const Integers& delta) {
  for (const Integers* scalar : {&start, &limit, &delta}) {
    if (scalar->values.size() != 1) Fail(node, "expected scalars");
  }
  const int64_t step = delta.values[0];
  if (step == 0) Fail(node, "a step of 0");
  Integers range;
  for (int64_t value = start.values[0];
       step > 0 ? value < limit.values[0] : value > limit.values[0]; value += step) {
    range.values.push_back(value);
  }
  range.shape = {static_cast<int64_t>(range.values.size())};
  return range;
}

Integers Compute(const Node& node, const std::vector<const Integers*>& inputs) {
  const auto input = [&](size_t index) -> const Integers& {
    if (index >= inputs.size() || inputs[index] == nullptr) {
      Fail(node, Concat("input ", index, " is left out"));
    }
    return *inputs[index];
  };
  const Integers* second = inputs.size() > 1 ? inputs[1] : nullptr;
  if (node.op_type == "Cast" || node.op_type == "Identity") return input(0);
  if (node.op_type == "Unsqueeze") return Unsqueeze(node, input(0), second);
  if (node.op_type == "Squeeze") return Squeeze(node, input(0), second);
  if (node.op_type == "ReduceSum") return ReduceSum(node, input(0), second);
  if (node.op_type == "Range") return Range(node, input(0), input(1), input(2));
  const auto op = BinaryOps().find(node.op_type);
  if (op == BinaryOps().end()) Fail(node, "is no operator of the host");
  Integers result = input(0);
  for (size_t i = 1; i < inputs.size(); ++i) {
    result = Elementwise(node, op->second, result, input(i));
  }
  return result;
}

// The graph, and its constants in the form in which they are used.
struct HostGraph {
  explicit HostGraph(const Graph& source) : graph(source) {
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      auto& weight = graph.values[id].weight;
      if (weight) constants[id] = Read(weight->type, weight->shape, weight->bytes.data());
      weight = nullptr;  // its memory may go
    }
  }

  Graph graph;
  std::map<ValueId, Integers> constants;
};

class HostRequest final : public Request {
 public:
  explicit HostRequest(std::shared_ptr<const HostGraph> host)
      : host_(std::move(host)),
        inputs_(host_->graph.inputs.size()),
        outputs_(host_->graph.outputs.size()),
        bound_(outputs_.size()) {}

  void SetInput(size_t input, const Tensor& tensor) override { inputs_[input] = tensor; }
  void SetOutput(size_t output, const Tensor& tensor) override { bound_[output] = tensor; }
  Tensor Output(size_t output) override { return outputs_[output]; }

  void Run(OpTimes* times) override {
    const Graph& graph = host_->graph;
    std::map<ValueId, Integers> values = host_->constants;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      values[graph.inputs[i]] = Read(inputs_[i].type, inputs_[i].shape, inputs_[i].data);
    }
    for (const Node& node : graph.nodes) {
      const int64_t start_ns = times == nullptr ? 0 : NowNs();
      std::vector<const Integers*> reads;
      for (ValueId value : node.inputs) {
        reads.push_back(value == kNoValue ? nullptr : &values.at(value));
      }
      Integers result = Compute(node, reads);
      const DataType type = graph[node.outputs.front()].type;
      for (int64_t& value : result.values) value = Fit(type, value);
      if (times != nullptr) {
        auto label = std::make_shared<const OpLabel>(
            OpLabel{NameInTopology(graph, node), node.op_type, kOnTandem, ""});
        times->push_back({std::move(label), Since(start_ns), result.shape});
      }
      values[node.outputs.front()] = std::move(result);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Integers& result = values.at(graph.outputs[i]);
      const DataType type = graph[graph.outputs[i]].type;
      outputs_[i] = bound_[i].data != nullptr ? bound_[i] : AllocateTensor(type, result.shape);
      if (outputs_[i].shape != result.shape) {
        throw Error(ErrorCode::kInvalidModel,
                    Concat("'", graph[graph.outputs[i]].name, "': found shape ",
                           ShapeText(result.shape), ", expected ", ShapeText(outputs_[i].shape)));
      }
      Write(result, outputs_[i]);
    }
  }

 private:
  std::shared_ptr<const HostGraph> host_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> bound_;
};

class HostFunction final : public Function {
 public:
  explicit HostFunction(const Graph& graph) : host_(std::make_shared<HostGraph>(graph)) {
    for (ValueId id : graph.inputs) inputs_.push_back(PortOf(graph[id]));
    for (ValueId id : graph.outputs) outputs_.push_back(PortOf(graph[id]));
  }

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }
  std::unique_ptr<Request> NewRequest() override { return std::make_unique<HostRequest>(host_); }
  int threads() const override { return 1; }

 private:
  static Port PortOf(const Value& value) { return {value.name, value.type, *value.shape}; }

  std::shared_ptr<const HostGraph> host_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
};

}  // namespace

std::shared_ptr<Function> MakeHostFunction(const Graph& graph) {
  return std::make_shared<HostFunction>(graph);
}

}  // namespace tandem

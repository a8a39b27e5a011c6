#include "graph/capability.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/strings.h"
#include "graph/host_nodes.h"
#include "graph/lower.h"
#include "graph/operator_faults.h"
#include "graph/wide_integers.h"

namespace tandem {
namespace {

// Everything a rule may look at.
struct Context {
  const Graph& graph;
  const GraphIndex& index;
  const LoweredNodes& lowered;
  const WideIntegers& wide_integers;
  const HostNodes& host_nodes;
};

// Every value that the node reads, or makes for somebody.
template <typename Function>
Reason FirstOf(const Context& context, const Node& node, Function&& why) {
  const auto is_read = [&](ValueId value) {
    return context.index.IsGraphOutput(value) || !context.index.Consumers(value).empty();
  };
  for (const auto* values : {&node.inputs, &node.captures, &node.outputs}) {
    for (ValueId value : *values) {
      if (value == kNoValue || !is_read(value)) continue;
      if (Reason reason = why(value, context.graph[value])) return reason;
    }
  }
  return std::nullopt;
}

// Types that OpenVINO lacks or computes in another: doubles in f32, strings not at all.
Reason ElementType(const Context& context, const Node& node, NodeId /*id*/) {
  return FirstOf(context, node, [](ValueId /*id*/, const Value& value) -> Reason {
    if (!value.is_tensor) return Concat("'", value.name, "' is not a tensor");
    if (value.type == DataType::kUndefined || value.type == DataType::kString) {
      return Concat("'", value.name, "' has an element type that OpenVINO does not compute");
    }
    if (value.type == DataType::kFloat64) {
      return Concat("'", value.name, "' is f64, which OpenVINO computes in f32");
    }
    return std::nullopt;
  });
}

Reason Rank(const Context& context, const Node& node, NodeId /*id*/) {
  return FirstOf(context, node, [](ValueId /*id*/, const Value& value) -> Reason {
    if (!value.shape) return Concat("'", value.name, "' has an unknown rank");
    return std::nullopt;
  });
}

// Constants that say "none": a reduction's axes, and what Resize does not use.
bool MayBeEmpty(const Graph& graph, const Node& node, size_t input) {
  if (!graph[node.inputs[input]].weight || !node.domain.empty()) return false;
  if (node.op_type == "Resize") return input == 1 || input == 2;
  return node.op_type.starts_with("Reduce") && input == 1;
}

Reason EmptyTensor(const Context& context, const Node& node, NodeId /*id*/) {
  std::set<ValueId> allowed;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue || !MayBeEmpty(context.graph, node, i)) continue;
    allowed.insert(node.inputs[i]);
  }
  return FirstOf(context, node, [&](ValueId id, const Value& value) -> Reason {
    const Shape& shape = *value.shape;
    if (std::find(shape.begin(), shape.end(), 0) == shape.end()) return std::nullopt;
    if (allowed.contains(id)) return std::nullopt;
    return Concat("'", value.name, "' ", ShapeText(shape), " is empty");
  });
}

Reason WideInteger(const Context& context, const Node& /*node*/, NodeId id) {
  if (!context.wide_integers.IsUnsafe(id) || context.host_nodes.Contains(id)) return std::nullopt;
  return "64-bit or unsigned integers beyond shapes, which OpenVINO computes in 32 bits";
}

// ONNX's integers wrap around; OpenVINO's of 8 and 16 bits stay at their limits.
Reason ShortInteger(const Context& context, const Node& node, NodeId /*id*/) {
  static const std::set<std::string_view> arithmetic{
      "Add", "Sub", "Mul", "Neg", "Pow", "Sum", "ReduceSum", "ReduceProd", "CumSum"};
  if (!arithmetic.contains(node.op_type)) return std::nullopt;
  const DataType type = context.graph[node.outputs.front()].type;
  if (IsFloat(type) || BitWidth(type) > 16 || type == DataType::kBool) return std::nullopt;
  return Concat("arithmetic in ", Name(type), ", which OpenVINO does not let wrap around");
}

Reason UnreadableAttribute(const Context& /*context*/, const Node& node, NodeId /*id*/) {
  for (const Attribute& attribute : node.attributes) {
    if (std::holds_alternative<Unreadable>(attribute.value)) {
      return Concat("attribute '", attribute.name, "' has a type that Tandem does not read");
    }
  }
  return std::nullopt;
}

// How a node reads a dequantized constant, as far as OpenVINO's CPU plugin gets it right when there
// is more than one scale: a right operand with scales for each output or in blocks of inputs, a
// filter, an elementwise operand. It multiplies a matrix with scales along its inputs, or one that
// is transposed, with the wrong ones, and gathers beyond the end of the scales.
bool ReadsScalesRight(const Graph& graph, NodeId reader, const Node& dequantize) {
  const Node& node = graph.nodes[reader];
  static const std::set<std::string_view> elementwise{"Add", "Sub", "Mul", "Div", "Conv"};
  if (elementwise.contains(node.op_type)) return true;
  const bool is_product = (node.op_type == "MatMul" ||
                           (node.op_type == "Gemm" && IntAttribute(node, "transB", 0) == 0)) &&
                          Input(node, 1) == dequantize.outputs.front();
  const bool in_blocks = IntAttribute(dequantize, "block_size", 0) > 0;
  const bool along_first_axis = IntAttribute(dequantize, "axis", 1) == 0;
  return is_product && in_blocks == along_first_axis;
}

Reason DequantizedConstant(const Context& context, const Node& node, NodeId id) {
  if (node.op_type != "DequantizeLinear" || context.lowered.Contains(id)) return std::nullopt;
  const ValueId codes = Input(node, 0);
  const ValueId scales = Input(node, 1);
  if (scales == kNoValue || !context.graph[codes].weight || !context.graph[scales].weight) {
    return std::nullopt;
  }
  if (ElementCount(*context.graph[scales].shape) == 1) return std::nullopt;
  const auto& readers = context.index.Consumers(node.outputs.front());
  const bool all_right = std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
    return ReadsScalesRight(context.graph, reader, node);
  });
  if (all_right) return std::nullopt;
  return "a dequantized constant, of which OpenVINO would use the wrong scales";
}

// What the tables know of the operator (graph/operator_faults.h), if OpenVINO computes it.
Reason Operator(const Context& context, const Node& node, NodeId id) {
  if (context.lowered.Contains(id) || context.host_nodes.Contains(id)) return std::nullopt;
  return OperatorFault(context.graph, context.index, node);
}

using Rule = Reason (*)(const Context&, const Node&, NodeId);

// In this order: later rules may rely on known ranks.
constexpr Rule kRules[] = {ElementType,         Rank,         EmptyTensor,
                           WideInteger,         ShortInteger, DequantizedConstant,
                           UnreadableAttribute, Operator};

Reason WhyDeclined(const Context& context, NodeId id) {
  const Node& node = context.graph.nodes[id];
  for (Rule rule : kRules) {
    if (Reason reason = rule(context, node, id)) return reason;
  }
  for (const auto& body : Bodies(node)) {
    for (const Reason& reason : DeclinedNodes(*body, /*has_shared_ops=*/false)) {
      if (reason) return Concat("its body: ", *reason);
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Reason> DeclinedNodes(const Graph& graph, bool has_shared_ops) {
  const GraphIndex index(graph);
  const LoweredNodes lowered(graph, index, has_shared_ops);
  const WideIntegers wide_integers(graph, index);
  const HostNodes host_nodes(graph, index, wide_integers);
  const Context context{graph, index, lowered, wide_integers, host_nodes};
  std::vector<Reason> reasons;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) reasons.push_back(WhyDeclined(context, id));
  return reasons;
}

}  // namespace tandem

#include "graph/infer_shape.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace tandem {
namespace {

using Names = std::set<std::string_view>;
using MaybeShape = std::optional<Shape>;

// The result has the shape of the first input.
const Names kSameShape{"Abs",
                       "Acos",
                       "Asin",
                       "Atan",
                       "Cast",
                       "Ceil",
                       "Celu",
                       "Clip",
                       "Cos",
                       "Cosh",
                       "CumSum",
                       "Elu",
                       "Erf",
                       "Exp",
                       "Floor",
                       "Gelu",
                       "HardSigmoid",
                       "HardSwish",
                       "Identity",
                       "InstanceNormalization",
                       "IsInf",
                       "IsNaN",
                       "LeakyRelu",
                       "Log",
                       "LogSoftmax",
                       "Mish",
                       "Neg",
                       "Not",
                       "Reciprocal",
                       "Relu",
                       "Round",
                       "ScatterND",
                       "Selu",
                       "Sigmoid",
                       "Sign",
                       "Sin",
                       "Sinh",
                       "Softmax",
                       "Softplus",
                       "Softsign",
                       "Sqrt",
                       "Tan",
                       "Tanh",
                       "Trilu",
                       "ThresholdedRelu",
                       "BitwiseNot",
                       "Hardmax",
                       "BatchNormalization",
                       "LayerNormalization",
                       "CastLike",
                       "ScatterElements",
                       "DequantizeLinear",
                       "QuantizeLinear",
                       "RMSNormalization"};

// The inputs are broadcast against each other.
const Names kElementwise{"Add",       "And",        "BitwiseAnd",
                         "BitwiseOr", "BitwiseXor", "Div",
                         "Equal",     "Greater",    "GreaterOrEqual",
                         "Less",      "Max",        "LessOrEqual",
                         "Mean",      "Min",        "Mod",
                         "Mul",       "Or",         "PRelu",
                         "Pow",       "Sub",        "Sum",
                         "Where",     "Xor"};

// The result has the rank of the first input, in dimensions that depend on more.
const Names kSameRank{"AveragePool", "Concat", "Conv",   "GatherElements", "GlobalAveragePool",
                      "MaxPool",     "Pad",    "Resize", "Slice",          "Split",
                      "Tile",        "TopK"};

Shape Unknown(size_t rank) {
  return Shape(rank, -1);
}

Shape Broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& mine = result[longer.size() - shorter.size() + i];
    const int64_t other = shorter[i];
    if (mine == other || other == 1) continue;
    mine = mine == 1 ? other : std::max(mine, other);  // an unknown one is 1 or the same
  }
  return result;
}

class Inference {
 public:
  Inference(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  MaybeShape Result() const {
    const std::string& op = node_.op_type;
    if (!node_.domain.empty()) return std::nullopt;
    if (op == "Size") return Shape{};
    if (op == "Range") return Unknown(1);
    if (op == "ConstantOfShape") return Requested(0);
    MaybeShape first = ShapeOf(0);
    if (!first) return std::nullopt;
    if (kSameShape.contains(op)) return first;
    if (kElementwise.contains(op)) return Elementwise();
    if (kSameRank.contains(op)) return Unknown(first->size());
    if (op.starts_with("Reduce")) return Reduced(*first, ListOf("axes", 1), true);
    if (op == "ArgMax" || op == "ArgMin") {
      return Reduced(*first, std::vector<int64_t>{IntAttribute(node_, "axis", 0)}, false);
    }
    if (op == "Shape") return Shape{-1};
    if (op == "NonZero") return Unknown(2);
    if (op == "Gather") return Gathered(*first);
    if (op == "Squeeze") return Squeezed(*first);
    if (op == "Unsqueeze") return Unsqueezed(*first);
    if (op == "Reshape") return Requested(1);
    if (op == "Transpose") return Transposed(*first);
    if (op == "MatMul") return Multiplied(*first);
    if (op == "Gemm") return Unknown(2);
    if (op == "Flatten") return Unknown(2);
    if (op == "Expand") {
      const MaybeShape wanted = Requested(1);
      return wanted ? MaybeShape(Broadcast(*first, *wanted)) : std::nullopt;
    }
    return std::nullopt;
  }

 private:
  MaybeShape ShapeOf(size_t input) const {
    const ValueId value = Input(node_, input);
    return value == kNoValue ? std::nullopt : graph_[value].shape;
  }

  // Numbers that older operator sets have as an attribute and newer ones as an input; none when
  // they are not known, empty when they are left out.
  std::optional<std::vector<int64_t>> ListOf(std::string_view attribute, size_t input) const {
    const ValueId value = Input(node_, input);
    return value == kNoValue ? IntsAttribute(node_, attribute) : ConstantInts(graph_, value);
  }

  // What an input of sizes asks for: its length is the rank.
  MaybeShape Requested(size_t input) const {
    const ValueId value = Input(node_, input);
    if (value == kNoValue) return std::nullopt;
    if (auto sizes = ConstantInts(graph_, value)) {
      for (int64_t& size : *sizes) size = size > 0 ? size : -1;
      return sizes;
    }
    const MaybeShape& length = graph_[value].shape;
    if (!length || length->size() != 1 || length->front() < 0) return std::nullopt;
    return Unknown(static_cast<size_t>(length->front()));
  }

  MaybeShape Elementwise() const {
    Shape result;
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      const MaybeShape shape = ShapeOf(i);
      if (!shape) return std::nullopt;
      result = Broadcast(result, *shape);
    }
    return result;
  }

  MaybeShape Reduced(const Shape& shape, const std::optional<std::vector<int64_t>>& axes,
                     bool empty_is_all) const {
    const bool keeps = IntAttribute(node_, "keepdims", 1) != 0;
    if (keeps) return Unknown(shape.size());
    if (!axes) return std::nullopt;
    if (axes->empty() && empty_is_all) {
      return IntAttribute(node_, "noop_with_empty_axes", 0) != 0 ? shape : Shape{};
    }
    return Without(shape, *axes);
  }

  static MaybeShape Without(const Shape& shape, const std::vector<int64_t>& axes) {
    std::vector<bool> removed(shape.size());
    for (int64_t axis : axes) {
      const int64_t at = axis < 0 ? axis + std::ssize(shape) : axis;
      if (at < 0 || at >= std::ssize(shape)) return std::nullopt;
      removed[at] = true;
    }
    Shape rest;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!removed[i]) rest.push_back(shape[i]);
    }
    return rest;
  }

  MaybeShape Gathered(const Shape& data) const {
    const MaybeShape indices = ShapeOf(1);
    int64_t axis = IntAttribute(node_, "axis", 0);
    if (axis < 0) axis += std::ssize(data);
    if (!indices || axis < 0 || axis >= std::ssize(data)) return std::nullopt;
    Shape result(data.begin(), data.begin() + axis);
    result.insert(result.end(), indices->begin(), indices->end());
    result.insert(result.end(), data.begin() + axis + 1, data.end());
    return result;
  }

  MaybeShape Squeezed(const Shape& shape) const {
    const auto axes = ListOf("axes", 1);
    if (!axes || (axes->empty() && !IsStatic(shape))) return std::nullopt;
    if (!axes->empty()) return Without(shape, *axes);
    Shape rest;
    std::copy_if(shape.begin(), shape.end(), std::back_inserter(rest),
                 [](int64_t d) { return d != 1; });
    return rest;
  }

  MaybeShape Unsqueezed(const Shape& shape) const {
    const auto axes = ListOf("axes", 1);
    if (!axes) return std::nullopt;
    const auto rank = static_cast<int64_t>(shape.size() + axes->size());
    Shape result(rank, 0);
    for (int64_t axis : *axes) {
      const int64_t at = axis < 0 ? axis + rank : axis;
      if (at < 0 || at >= rank) return std::nullopt;
      result[at] = 1;
    }
    auto next = shape.begin();
    for (int64_t& dimension : result) {
      if (dimension == 0 && next != shape.end()) dimension = *next++;
    }
    return next == shape.end() ? MaybeShape(result) : std::nullopt;
  }

  MaybeShape Transposed(const Shape& shape) const {
    const std::vector<int64_t> order = IntsAttribute(node_, "perm");
    Shape result(shape.rbegin(), shape.rend());
    if (order.empty()) return result;
    if (order.size() != shape.size()) return std::nullopt;
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i] < 0 || order[i] >= std::ssize(shape)) return std::nullopt;
      result[i] = shape[order[i]];
    }
    return result;
  }

  MaybeShape Multiplied(const Shape& a) const {
    const MaybeShape b = ShapeOf(1);
    if (!b || a.empty() || b->empty()) return std::nullopt;
    const auto batch = [](const Shape& s) {
      return Shape(s.begin(), s.end() - std::min<ptrdiff_t>(2, std::ssize(s)));
    };
    Shape result = Broadcast(batch(a), batch(*b));
    if (a.size() > 1) result.push_back(a[a.size() - 2]);
    if (b->size() > 1) result.push_back(b->back());
    return result;
  }

  const Graph& graph_;
  const Node& node_;
};

}  // namespace

void InferShapes(Graph& graph, const Node& node) {
  const MaybeShape shape = Inference(graph, node).Result();
  if (!shape) return;
  for (ValueId value : node.outputs) {
    if (value != kNoValue && graph[value].is_tensor && !graph[value].shape) {
      graph.values[value].shape = shape;
    }
  }
}

}  // namespace tandem

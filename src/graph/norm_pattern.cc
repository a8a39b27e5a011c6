#include "graph/norm_pattern.h"

#include <algorithm>

namespace tandem {
namespace {

// Whether x is [.., d] and weight [d], with a known d.
bool Fits(const Walker& walker, const RmsNormUse& use) {
  const Shape* x = walker.FloatShape(use.x);
  const Shape* weight = walker.FloatShape(use.weight, 1);
  return x != nullptr && weight != nullptr && x->back() > 0 && x->back() == weight->front();
}

std::optional<RmsNormUse> FromOperator(const Walker& walker, const Node& node) {
  if (node.inputs.size() != 2 || std::count_if(node.outputs.begin(), node.outputs.end(),
                                               [](ValueId v) { return v != kNoValue; }) != 1) {
    return std::nullopt;
  }
  const RmsNormUse use{node.inputs[0], node.inputs[1], FloatAttribute(node, "epsilon", 1e-5F)};
  if (!Fits(walker, use)) return std::nullopt;
  const int64_t axis = IntAttribute(node, "axis", -1);
  const auto last = static_cast<int64_t>(walker.FloatShape(use.x)->size()) - 1;
  if (axis != -1 && axis != last) return std::nullopt;
  return use;
}

// x, if `square` is its square.
ValueId Squared(const Walker& walker, ValueId square) {
  if (const Node* mul = walker.Made(square, "Mul")) {
    return mul->inputs[0] == mul->inputs[1] ? mul->inputs[0] : kNoValue;
  }
  const Node* pow = walker.Made(square, "Pow");
  if (pow == nullptr) return kNoValue;
  const auto exponent = ConstantFloat(walker.graph(), pow->inputs[1]);
  return exponent == 2.0F ? pow->inputs[0] : kNoValue;
}

// x, if `root` is the square root of the mean of its squares over the last axis and epsilon.
ValueId FromRoot(const Walker& walker, ValueId root, float& epsilon) {
  const Node* sqrt = walker.Made(root, "Sqrt");
  const Node* add = sqrt == nullptr ? nullptr : walker.Made(sqrt->inputs[0], "Add");
  if (add == nullptr) return kNoValue;
  const auto left = ConstantFloat(walker.graph(), add->inputs[0]);
  const auto right = ConstantFloat(walker.graph(), add->inputs[1]);
  if (left.has_value() == right.has_value()) return kNoValue;
  epsilon = left ? *left : *right;
  const Node* mean = walker.Made(add->inputs[left ? 1 : 0], "ReduceMean");
  if (mean == nullptr || IntAttribute(*mean, "keepdims", 1) != 1) return kNoValue;
  const ValueId x = Squared(walker, mean->inputs[0]);
  const Shape* shape = walker.FloatShape(x);
  if (shape == nullptr) return kNoValue;
  auto axes = ConstantInts(walker.graph(), Input(*mean, 1));
  if (!axes) axes = IntsAttribute(*mean, "axes");
  const auto last = static_cast<int64_t>(shape->size()) - 1;
  const bool is_last = axes->size() == 1 && (axes->front() == -1 || axes->front() == last);
  return is_last ? x : kNoValue;
}

// x, if `normed` is x divided by its root mean square.
ValueId Normalized(const Walker& walker, ValueId normed, float& epsilon) {
  ValueId x = kNoValue;
  ValueId from = kNoValue;
  if (const Node* div = walker.Made(normed, "Div")) {
    x = div->inputs[0];
    from = FromRoot(walker, div->inputs[1], epsilon);
  } else if (const Node* mul = walker.Made(normed, "Mul")) {
    for (size_t side : {0, 1}) {
      ValueId root = kNoValue;
      if (const Node* reciprocal = walker.Made(mul->inputs[side], "Reciprocal")) {
        root = reciprocal->inputs[0];
      } else if (const Node* one = walker.Made(mul->inputs[side], "Div");
                 one != nullptr && ConstantFloat(walker.graph(), one->inputs[0]) == 1.0F) {
        root = one->inputs[1];
      }
      if (root == kNoValue) continue;
      x = mul->inputs[1 - side];
      from = FromRoot(walker, root, epsilon);
    }
  }
  return x != kNoValue && x == from ? x : kNoValue;
}

}  // namespace

std::optional<RmsNormUse> MatchRmsNorm(const Walker& walker, const Node& node) {
  if (IsOp(node, "RMSNormalization") || IsOp(node, "SimplifiedLayerNormalization")) {
    return FromOperator(walker, node);
  }
  if (!IsOp(node, "Mul")) return std::nullopt;
  for (size_t side : {0, 1}) {
    RmsNormUse use;
    use.weight = walker.SkipCasts(node.inputs[side]);
    use.x = Normalized(walker, walker.SkipCasts(node.inputs[1 - side]), use.epsilon);
    if (use.x == kNoValue) continue;
    use.x = walker.SkipCasts(use.x);
    if (Fits(walker, use)) return use;
  }
  return std::nullopt;
}

Graph SplitSkipNorms(const Graph& graph) {
  enum { kX, kSkip, kWeight, kBias };
  enum { kNormed, kMean, kInverse, kSum };
  Graph split = graph;
  split.nodes.clear();
  for (const Node& node : graph.nodes) {
    const bool is_skip_norm = IsOp(node, "SkipSimplifiedLayerNormalization", kMicrosoftDomain);
    const auto output = [&](size_t i) {
      return i < node.outputs.size() ? node.outputs[i] : kNoValue;
    };
    if (!is_skip_norm || node.inputs.size() < 3 || output(kMean) != kNoValue ||
        output(kInverse) != kNoValue) {
      split.nodes.push_back(node);
      continue;
    }
    const std::string base = graph[node.outputs[kNormed]].name;
    const auto add = [&](ValueId a, ValueId b, ValueId sum, const char* suffix) {
      if (sum == kNoValue) {
        Value value = split[a];
        value.name = base + suffix;
        value.weight = nullptr;
        sum = split.AddValue(std::move(value));
      }
      Node made;
      made.op_type = "Add";
      made.name = node.name + suffix;
      made.inputs = {a, b};
      made.outputs = {sum};
      split.nodes.push_back(std::move(made));
      return sum;
    };
    const bool has_bias = Input(node, kBias) != kNoValue;
    ValueId sum =
        add(node.inputs[kX], node.inputs[kSkip], has_bias ? kNoValue : output(kSum), "/skip");
    if (has_bias) sum = add(sum, node.inputs[kBias], output(kSum), "/bias");
    Node norm;
    norm.op_type = "SimplifiedLayerNormalization";
    norm.name = node.name;
    norm.inputs = {sum, node.inputs[kWeight]};
    norm.outputs = {node.outputs[kNormed]};
    norm.attributes = {{"epsilon", FloatAttribute(node, "epsilon", 1e-12F)}};
    split.nodes.push_back(std::move(norm));
  }
  return split;
}

}  // namespace tandem

#include "graph/attention_pattern.h"

#include <algorithm>

namespace tandem {
namespace {

// Whether a dimension broadcasts to another for sure, as far as a valid model can have it.
bool Broadcasts(int64_t from, int64_t to) {
  return from == 1 || from == to || (from < 0 && to > 1);
}

// Walks from values to the nodes that make them.
class Walker {
 public:
  Walker(const Graph& graph, const GraphIndex& index) : graph_(graph), index_(index) {}

  // The node that makes `value`, if it is an `op_type` of ai.onnx.
  const Node* Made(ValueId value, std::string_view op_type) const {
    const NodeId id = value == kNoValue ? GraphIndex::kNoNode : index_.Producer(value);
    if (id == GraphIndex::kNoNode || !IsOp(graph_.nodes[id], op_type)) return nullptr;
    return &graph_.nodes[id];
  }

  // The shape of a float tensor whose rank is known to be `rank`; null for all else.
  const Shape* FloatShape(ValueId value, size_t rank) const {
    const Shape* shape = FloatShape(value);
    return shape != nullptr && shape->size() == rank ? shape : nullptr;
  }

  // The same for any rank but zero.
  const Shape* FloatShape(ValueId value) const {
    if (value == kNoValue || !FitsFloat32(graph_[value].type)) return nullptr;
    const auto& shape = graph_[value].shape;
    return shape && !shape->empty() ? &*shape : nullptr;
  }

  ValueId SkipCasts(ValueId value) const {
    while (const Node* cast = Made(value, "Cast")) {
      if (!FitsFloat32(graph_[cast->inputs.front()].type)) break;
      value = cast->inputs.front();
    }
    return value;
  }

  // What is left of `value` without factors that are constant scalars; `scale` takes these.
  ValueId SkipScale(ValueId value, float& scale) const {
    for (;;) {
      value = SkipCasts(value);
      if (const Node* mul = Made(value, "Mul")) {
        const auto left = ConstantFloat(graph_, mul->inputs[0]);
        const auto right = ConstantFloat(graph_, mul->inputs[1]);
        if (left.has_value() == right.has_value()) return value;
        scale *= left ? *left : *right;
        value = mul->inputs[left ? 1 : 0];
      } else if (const Node* div = Made(value, "Div")) {
        const auto divisor = ConstantFloat(graph_, div->inputs[1]);
        if (!divisor) return value;
        scale /= *divisor;
        value = div->inputs[0];
      } else {
        return value;
      }
    }
  }

  // Whether `half` is the first or the second half of x [.., size], along the last axis.
  bool IsHalf(ValueId half, ValueId x, int64_t size, bool is_second) const {
    const Shape* shape = FloatShape(half);
    if (shape == nullptr || shape->back() * 2 != size) return false;
    const auto last = static_cast<int64_t>(shape->size()) - 1;
    if (const Node* split = Made(half, "Split")) {
      const int64_t axis = IntAttribute(*split, "axis", 0);
      return split->inputs[0] == x && split->outputs.size() == 2 &&
             split->outputs[is_second ? 1 : 0] == half && (axis == -1 || axis == last);
    }
    const Node* slice = Made(half, "Slice");
    if (slice == nullptr || slice->inputs[0] != x) return false;
    const auto start = ConstantInts(graph_, Input(*slice, 1));
    const auto axes = ConstantInts(graph_, Input(*slice, 3));
    const auto steps = ConstantInts(graph_, Input(*slice, 4));
    if (!start || start->size() != 1 || !axes || ((*axes)[0] != -1 && (*axes)[0] != last)) {
      return false;
    }
    if (Input(*slice, 4) != kNoValue && (!steps || (*steps)[0] != 1)) return false;
    return ((*start)[0] < 0 ? (*start)[0] + size : (*start)[0]) == (is_second ? size / 2 : 0);
  }

  // The keys or values whose heads are repeated into `value` [b, n, t, d]; itself if nothing is.
  ValueId SkipRepeat(ValueId value) const {
    const Node* reshape = Made(SkipCasts(value), "Reshape");
    const Node* expand = reshape == nullptr ? nullptr : Made(reshape->inputs[0], "Expand");
    const Node* unsqueeze = expand == nullptr ? nullptr : Made(expand->inputs[0], "Unsqueeze");
    if (unsqueeze == nullptr) return value;
    const ValueId heads = unsqueeze->inputs[0];
    const Shape* from = FloatShape(heads, 4);
    const Shape* repeated = FloatShape(expand->outputs[0], 5);
    const Shape* to = FloatShape(reshape->outputs[0], 4);
    if (from == nullptr || repeated == nullptr || to == nullptr) return value;
    if (ConstantInts(graph_, Input(*unsqueeze, 1)) != std::vector<int64_t>{2}) return value;
    // Only the new axis grows.
    const auto target = ConstantInts(graph_, expand->inputs[1]);
    if (!target || target->size() != 5) return value;
    for (size_t axis : {0, 1, 3, 4}) {
      const int64_t size = (*from)[axis < 2 ? axis : axis - 1];
      if ((*target)[axis] != 1 && (*target)[axis] != size) return value;
    }
    // It joins the heads, and nothing else moves.
    const auto joined = ConstantInts(graph_, reshape->inputs[1]);
    const bool keeps_batch =
        ((*to)[0] > 0 && (*to)[0] == (*from)[0]) ||
        (joined && (*joined)[0] == 0 && !IntAttribute(*reshape, "allowzero", 0));
    const bool joins_heads = (*from)[1] > 0 && (*repeated)[2] > 0 &&
                             (*to)[1] == (*from)[1] * (*repeated)[2] && (*to)[3] > 0 &&
                             (*to)[3] == (*from)[3];
    return keeps_batch && joins_heads ? heads : value;
  }

  // Softmax over the last of four axes.
  bool IsSoftmaxOfRows(const Node& softmax) const {
    const auto opset = std::find_if(graph_.opsets.begin(), graph_.opsets.end(),
                                    [](const Opset& o) { return o.domain.empty(); });
    const bool is_old = opset != graph_.opsets.end() && opset->version < 13;
    const int64_t axis = IntAttribute(softmax, "axis", is_old ? 1 : -1);
    return axis == 3 || axis == -1;
  }

  bool IsReadOnce(ValueId value) const {
    return index_.Consumers(value).size() == 1 && !index_.IsGraphOutput(value);
  }

 private:
  const Graph& graph_;
  const GraphIndex& index_;
};

// Whether the rows of `angles` [.., d] are those of x [.., d] or repeat over them.
bool AnglesFit(const Shape* angles, const Shape& x) {
  return angles != nullptr && angles->size() <= x.size() && angles->back() == x.back() &&
         std::equal(angles->rbegin(), angles->rend(), x.rbegin(), Broadcasts);
}

}  // namespace

std::optional<RotaryEmbeddingUse> MatchRotaryEmbedding(const Graph& graph, const GraphIndex& index,
                                                       const Node& node) {
  if (!IsOp(node, "Add")) return std::nullopt;
  const Walker walker(graph, index);
  // The turned part is the one with a Concat.
  for (size_t turned_side : {0, 1}) {
    const Node* straight = walker.Made(node.inputs[1 - turned_side], "Mul");
    const Node* turned = walker.Made(node.inputs[turned_side], "Mul");
    if (straight == nullptr || turned == nullptr) return std::nullopt;
    for (size_t concat_side : {0, 1}) {
      const Node* concat = walker.Made(turned->inputs[concat_side], "Concat");
      if (concat == nullptr || concat->inputs.size() != 2) continue;
      const Node* negated = walker.Made(concat->inputs[0], "Neg");
      if (negated == nullptr) continue;
      for (size_t x_side : {0, 1}) {
        RotaryEmbeddingUse use;
        use.x = straight->inputs[x_side];
        use.cos = straight->inputs[1 - x_side];
        use.sin = turned->inputs[1 - concat_side];
        const Shape* x = walker.FloatShape(use.x);
        if (x == nullptr || x->back() <= 0 || x->back() % 2 != 0) continue;
        const int64_t axis = IntAttribute(*concat, "axis", 0);
        if (axis != -1 && axis != static_cast<int64_t>(x->size()) - 1) continue;
        if (!walker.IsHalf(negated->inputs[0], use.x, x->back(), /*is_second=*/true) ||
            !walker.IsHalf(concat->inputs[1], use.x, x->back(), /*is_second=*/false)) {
          continue;
        }
        if (AnglesFit(walker.FloatShape(use.cos), *x) &&
            AnglesFit(walker.FloatShape(use.sin), *x)) {
          return use;
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<AttentionUse> MatchAttention(const Graph& graph, const GraphIndex& index,
                                           const Node& node) {
  if (!IsOp(node, "MatMul")) return std::nullopt;
  const Walker walker(graph, index);
  const Node* softmax = walker.Made(walker.SkipCasts(node.inputs[0]), "Softmax");
  if (softmax == nullptr || !walker.IsSoftmaxOfRows(*softmax)) return std::nullopt;
  if (!walker.IsReadOnce(softmax->outputs[0])) return std::nullopt;

  AttentionUse use;
  const Node* product = nullptr;
  const auto find_product = [&](ValueId scores) {
    use.scale = 1;
    product = walker.Made(walker.SkipScale(scores, use.scale), "MatMul");
    return product != nullptr;
  };
  const ValueId scores = walker.SkipCasts(softmax->inputs[0]);
  if (const Node* add = walker.Made(scores, "Add")) {
    if (find_product(add->inputs[0])) {
      use.bias = add->inputs[1];
    } else if (find_product(add->inputs[1])) {
      use.bias = add->inputs[0];
    }
  } else {
    find_product(scores);
  }
  if (product == nullptr) return std::nullopt;
  use.q = walker.SkipScale(product->inputs[0], use.scale);
  const Node* transpose = walker.Made(walker.SkipScale(product->inputs[1], use.scale), "Transpose");
  if (transpose == nullptr ||
      IntsAttribute(*transpose, "perm") != std::vector<int64_t>{0, 1, 3, 2}) {
    return std::nullopt;
  }
  use.k = walker.SkipRepeat(walker.SkipScale(transpose->inputs[0], use.scale));
  use.v = walker.SkipRepeat(walker.SkipCasts(node.inputs[1]));

  const Shape* q = walker.FloatShape(use.q, 4);
  const Shape* k = walker.FloatShape(use.k, 4);
  const Shape* v = walker.FloatShape(use.v, 4);
  const Shape* full = walker.FloatShape(product->outputs[0], 4);
  if (q == nullptr || k == nullptr || v == nullptr || full == nullptr) return std::nullopt;
  // A scalar of more dimensions would have added some on the way.
  if (walker.FloatShape(node.outputs[0], 4) == nullptr) return std::nullopt;
  const auto fits = [&](const Shape& kv) {
    return kv[0] == (*q)[0] && (*q)[1] > 0 && kv[1] > 0 && (*q)[1] % kv[1] == 0 && (*q)[3] > 0 &&
           kv[3] == (*q)[3];
  };
  if (!fits(*k) || !fits(*v)) return std::nullopt;
  if (use.bias != kNoValue) {
    const Shape* bias = walker.FloatShape(use.bias);
    if (bias == nullptr || bias->size() > 4 || bias->back() != full->back() ||
        !std::equal(bias->rbegin(), bias->rend(), full->rbegin(), Broadcasts)) {
      return std::nullopt;
    }
  }
  return use;
}

}  // namespace tandem

#include "graph/attention_pattern.h"

#include <algorithm>

namespace tandem {
namespace {

// Whether a dimension broadcasts to another for sure, as far as a valid model can have it.
bool Broadcasts(int64_t from, int64_t to) {
  return from == 1 || from == to || (from < 0 && to > 1);
}

// Whether `half` is the first or the second half of x [.., size], along the last axis.
bool IsHalf(const Walker& walker, ValueId half, ValueId x, int64_t size, bool is_second) {
  const Shape* shape = walker.FloatShape(half);
  if (shape == nullptr || shape->back() * 2 != size) return false;
  const auto last = static_cast<int64_t>(shape->size()) - 1;
  if (const Node* split = walker.Made(half, "Split")) {
    const int64_t axis = IntAttribute(*split, "axis", 0);
    return split->inputs[0] == x && split->outputs.size() == 2 &&
           split->outputs[is_second ? 1 : 0] == half && (axis == -1 || axis == last);
  }
  const Node* slice = walker.Made(half, "Slice");
  if (slice == nullptr || slice->inputs[0] != x) return false;
  const auto start = ConstantInts(walker.graph(), Input(*slice, 1));
  const auto axes = ConstantInts(walker.graph(), Input(*slice, 3));
  const auto steps = ConstantInts(walker.graph(), Input(*slice, 4));
  if (!start || start->size() != 1 || !axes || ((*axes)[0] != -1 && (*axes)[0] != last)) {
    return false;
  }
  if (Input(*slice, 4) != kNoValue && (!steps || (*steps)[0] != 1)) return false;
  return ((*start)[0] < 0 ? (*start)[0] + size : (*start)[0]) == (is_second ? size / 2 : 0);
}

// The keys or values whose heads are repeated into `value` [b, n, t, d]; itself if nothing is.
ValueId SkipRepeat(const Walker& walker, ValueId value) {
  const Node* reshape = walker.Made(walker.SkipCasts(value), "Reshape");
  const Node* expand = reshape == nullptr ? nullptr : walker.Made(reshape->inputs[0], "Expand");
  const Node* unsqueeze = expand == nullptr ? nullptr : walker.Made(expand->inputs[0], "Unsqueeze");
  if (unsqueeze == nullptr) return value;
  const ValueId heads = unsqueeze->inputs[0];
  const Shape* from = walker.FloatShape(heads, 4);
  const Shape* repeated = walker.FloatShape(expand->outputs[0], 5);
  const Shape* to = walker.FloatShape(reshape->outputs[0], 4);
  if (from == nullptr || repeated == nullptr || to == nullptr) return value;
  if (ConstantInts(walker.graph(), Input(*unsqueeze, 1)) != std::vector<int64_t>{2}) return value;
  // Only the new axis grows.
  const auto target = ConstantInts(walker.graph(), expand->inputs[1]);
  if (!target || target->size() != 5) return value;
  for (size_t axis : {0, 1, 3, 4}) {
    const int64_t size = (*from)[axis < 2 ? axis : axis - 1];
    if ((*target)[axis] != 1 && (*target)[axis] != size) return value;
  }
  // It joins the heads, and nothing else moves.
  const auto joined = ConstantInts(walker.graph(), reshape->inputs[1]);
  const bool keeps_batch = ((*to)[0] > 0 && (*to)[0] == (*from)[0]) ||
                           (joined && (*joined)[0] == 0 && !IntAttribute(*reshape, "allowzero", 0));
  const bool joins_heads = (*from)[1] > 0 && (*repeated)[2] > 0 &&
                           (*to)[1] == (*from)[1] * (*repeated)[2] && (*to)[3] > 0 &&
                           (*to)[3] == (*from)[3];
  return keeps_batch && joins_heads ? heads : value;
}

// Softmax over the last of four axes.
bool IsSoftmaxOfRows(const Graph& graph, const Node& softmax) {
  const auto opset = std::find_if(graph.opsets.begin(), graph.opsets.end(),
                                  [](const Opset& o) { return o.domain.empty(); });
  const bool is_old = opset != graph.opsets.end() && opset->version < 13;
  const int64_t axis = IntAttribute(softmax, "axis", is_old ? 1 : -1);
  return axis == 3 || axis == -1;
}

bool SwapsHeadsAndTokens(const Node& transpose) {
  return IntsAttribute(transpose, "perm") == std::vector<int64_t>{0, 2, 1, 3};
}

// Whether a Reshape keeps the first two dimensions, which are the same in `shape`.
bool KeepsBatchAndTokens(const Walker& walker, const Node& reshape, const Shape& shape) {
  const Shape* to = walker.FloatShape(reshape.outputs[0]);
  const auto target = ConstantInts(walker.graph(), reshape.inputs[1]);
  if (to == nullptr || to->size() < 2 || IntAttribute(reshape, "allowzero", 0) != 0) return false;
  size_t unknown = 0;
  for (size_t i : {0, 1}) {
    const bool is_kept = ((*to)[i] > 0 && (*to)[i] == shape[i]) || (target && (*target)[i] == 0);
    if (!is_kept) ++unknown;
  }
  // One that is computed, from the number of elements, is kept when all others are.
  if (unknown == 0) return true;
  return unknown == 1 && target && std::count(target->begin(), target->end(), -1) == 1 &&
         ((*target)[0] == -1 || (*target)[1] == -1);
}

// The projection [b, s, h * d] whose heads are split into `heads` [b, h, s, d]; kNoValue otherwise.
ValueId BeforeSplit(const Walker& walker, ValueId heads) {
  const Shape* shape = walker.FloatShape(heads, 4);
  const Node* transpose = walker.Made(heads, "Transpose");
  if (shape == nullptr || transpose == nullptr || !SwapsHeadsAndTokens(*transpose)) return kNoValue;
  const Node* reshape = walker.Made(transpose->inputs[0], "Reshape");
  if (reshape == nullptr || (*shape)[1] <= 0 || (*shape)[3] <= 0) return kNoValue;
  const ValueId joined = reshape->inputs[0];
  const Shape* from = walker.FloatShape(joined, 3);
  const bool fits = from != nullptr && (*from)[2] == (*shape)[1] * (*shape)[3] &&
                    KeepsBatchAndTokens(walker, *reshape, *from);
  return fits ? joined : kNoValue;
}

// The node that joins the heads of `result` [b, n, s, d] into [b, s, n * d], if only that reads it.
const Node* JoinedBy(const Walker& walker, ValueId result) {
  const Node* transpose = walker.ReadBy(result, "Transpose");
  if (transpose == nullptr || !SwapsHeadsAndTokens(*transpose)) return nullptr;
  const Node* reshape = walker.ReadBy(transpose->outputs[0], "Reshape");
  if (reshape == nullptr || reshape->inputs[0] != transpose->outputs[0]) return nullptr;
  const Shape* shape = walker.FloatShape(result, 4);
  const Shape* to = walker.FloatShape(reshape->outputs[0], 3);
  if (shape == nullptr || to == nullptr || (*to)[2] != (*shape)[1] * (*shape)[3]) return nullptr;
  const Shape swapped{(*shape)[0], (*shape)[2], (*shape)[1], (*shape)[3]};
  return KeepsBatchAndTokens(walker, *reshape, swapped) ? reshape : nullptr;
}

// Whether all that is made of `value`, by nodes of one result, ends up in `end`.
bool LeadsOnlyTo(const Walker& walker, ValueId value, const Node& end) {
  for (;;) {
    const auto& readers = walker.index().Consumers(value);
    if (readers.size() != 1) return false;
    const Node& node = walker.graph().nodes[readers.front()];
    if (&node == &end) return true;
    if (node.outputs.size() != 1 || walker.index().IsGraphOutput(node.outputs[0])) return false;
    value = node.outputs[0];
  }
}

// Where keys or values come from.
struct Rows {
  ValueId fresh = kNoValue;    // [b, m, s, d]
  ValueId past = kNoValue;     // [b, m, p, d]
  ValueId present = kNoValue;  // both, as somebody else sees them
};

// Rows [b, m, t, d] as those of a cache: a Concat behind the past, or an output of the graph.
Rows FindCache(const Walker& walker, ValueId rows, const Node& end) {
  const Graph& graph = walker.graph();
  if (const Node* concat = walker.Made(rows, "Concat")) {
    const int64_t axis = IntAttribute(*concat, "axis", 0);
    if (concat->inputs.size() == 2 && (axis == 2 || axis == -2) &&
        walker.IsFed(concat->inputs[0]) && LeadsOnlyTo(walker, rows, end) &&
        walker.FloatShape(concat->inputs[0], 4) != nullptr &&
        walker.FloatShape(concat->inputs[1], 4) != nullptr) {
      return {concat->inputs[1], concat->inputs[0], rows};
    }
  }
  const NodeId maker = walker.index().Producer(rows);
  const bool is_output = walker.index().IsGraphOutput(rows) && maker != GraphIndex::kNoNode &&
                         graph.nodes[maker].outputs.size() == 1 && LeadsOnlyTo(walker, rows, end);
  return {rows, kNoValue, is_output ? rows : kNoValue};
}

// Replaces the inputs q, k and v of an attention by what they are made from. `end`: its last node.
void TakeSurroundings(const Walker& walker, const Node& end, AttentionUse& use) {
  using Ports = AttentionPorts;
  const AttentionUse alone = use;
  const Rows keys = FindCache(walker, use.inputs[Ports::kKey], end);
  const Rows values = FindCache(walker, use.inputs[Ports::kValue], end);
  const bool has_caches = keys.present != kNoValue && values.present != kNoValue &&
                          (keys.past == kNoValue) == (values.past == kNoValue) &&
                          walker.graph()[keys.present].type == walker.graph()[values.present].type;
  if (has_caches) {
    use.inputs[Ports::kPastKey] = keys.past;
    use.inputs[Ports::kPastValue] = values.past;
    use.outputs[Ports::kPresentKey] = keys.present;
    use.outputs[Ports::kPresentValue] = values.present;
    use.inputs[Ports::kKey] = keys.fresh;
    use.inputs[Ports::kValue] = values.fresh;
  } else if (keys.present != kNoValue || values.present != kNoValue) {
    return;  // others see the rows as they are
  }
  const auto rotated = [&](ValueId value) -> std::optional<RotaryEmbeddingUse> {
    const NodeId id = walker.index().Producer(value);
    if (id == GraphIndex::kNoNode) return std::nullopt;
    return MatchRotaryEmbedding(walker, walker.graph().nodes[id]);
  };
  const auto q = rotated(use.inputs[Ports::kQuery]);
  const auto k = rotated(use.inputs[Ports::kKey]);
  const Shape* q_shape = walker.FloatShape(use.inputs[Ports::kQuery], 4);
  const Shape* k_shape = walker.FloatShape(use.inputs[Ports::kKey], 4);
  if (q && k && q->cos == k->cos && q->sin == k->sin && q_shape != nullptr && k_shape != nullptr &&
      (*q_shape)[2] == (*k_shape)[2]) {
    // The angles are those of tokens, the same for all heads.
    const Shape& angles = *walker.FloatShape(q->cos);
    const bool of_tokens = angles.size() < 3 || angles[angles.size() - 3] == 1;
    const Shape& sines = *walker.FloatShape(q->sin);
    if (of_tokens && (sines.size() < 3 || sines[sines.size() - 3] == 1)) {
      use.inputs[Ports::kQuery] = q->x;
      use.inputs[Ports::kKey] = k->x;
      use.inputs[Ports::kCos] = q->cos;
      use.inputs[Ports::kSin] = q->sin;
    }
  }
  int64_t heads = 0;
  int64_t kv_heads = 0;
  const auto join = [&](Ports::Input port, int64_t& count) {
    const ValueId joined = BeforeSplit(walker, use.inputs[port]);
    if (joined == kNoValue) return;
    const int64_t found = (*walker.FloatShape(use.inputs[port], 4))[1];
    if (count != 0 && count != found) return;
    count = found;
    use.inputs[port] = joined;
  };
  join(Ports::kQuery, heads);
  join(Ports::kKey, kv_heads);
  join(Ports::kValue, kv_heads);
  // A packed width is that of all three; here each has its own.
  if (heads != 0 && kv_heads == 0) kv_heads = (*walker.FloatShape(use.inputs[Ports::kKey], 4))[1];
  use.attributes.push_back({"heads", heads});
  use.attributes.push_back({"kv_heads", kv_heads});
  // Rows of a new cache must be made of something else.
  if (has_caches &&
      (use.inputs[Ports::kKey] == keys.present || use.inputs[Ports::kValue] == values.present)) {
    use = alone;
  }
}

// Whether the rows of `angles` [.., d] are those of x [.., d] or repeat over them.
bool AnglesFit(const Shape* angles, const Shape& x) {
  return angles != nullptr && angles->size() <= x.size() && angles->back() == x.back() &&
         std::equal(angles->rbegin(), angles->rend(), x.rbegin(), Broadcasts);
}

}  // namespace

std::optional<RotaryEmbeddingUse> MatchRotaryEmbedding(const Walker& walker, const Node& node) {
  if (!IsOp(node, "Add")) return std::nullopt;
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
        if (!IsHalf(walker, negated->inputs[0], use.x, x->back(), /*is_second=*/true) ||
            !IsHalf(walker, concat->inputs[1], use.x, x->back(), /*is_second=*/false)) {
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

namespace {

struct CoreUse {
  ValueId q = kNoValue;
  ValueId k = kNoValue;
  ValueId v = kNoValue;
  ValueId bias = kNoValue;
  float scale = 1;
};

// q [b, n, s, d], k and v [b, m, t, d] with n a multiple of m, and a bias that broadcasts to
// [b, n, s, t], or none.
std::optional<CoreUse> MatchCore(const Walker& walker, const Node& node) {
  if (!IsOp(node, "MatMul")) return std::nullopt;
  const Node* softmax = walker.Made(walker.SkipCasts(node.inputs[0]), "Softmax");
  if (softmax == nullptr || !IsSoftmaxOfRows(walker.graph(), *softmax)) return std::nullopt;
  if (!walker.IsReadOnce(softmax->outputs[0])) return std::nullopt;

  CoreUse use;
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
  use.k = SkipRepeat(walker, walker.SkipScale(transpose->inputs[0], use.scale));
  use.v = SkipRepeat(walker, walker.SkipCasts(node.inputs[1]));

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

}  // namespace

std::optional<AttentionUse> MatchAttention(const Walker& walker, const Node& node) {
  const Node* last = &node;  // of the attention itself
  if (IsOp(node, "Reshape")) {
    const Node* transpose = walker.Made(node.inputs[0], "Transpose");
    last = transpose == nullptr ? nullptr : walker.Made(transpose->inputs[0], "MatMul");
    if (last == nullptr || JoinedBy(walker, last->outputs[0]) != &node) return std::nullopt;
  } else if (!IsOp(node, "MatMul") || JoinedBy(walker, node.outputs[0]) != nullptr) {
    return std::nullopt;
  }
  const auto core = MatchCore(walker, *last);
  if (!core) return std::nullopt;
  AttentionUse use;
  use.inputs[AttentionPorts::kQuery] = core->q;
  use.inputs[AttentionPorts::kKey] = core->k;
  use.inputs[AttentionPorts::kValue] = core->v;
  use.inputs[AttentionPorts::kBias] = core->bias;
  use.outputs[AttentionPorts::kResult] = node.outputs[0];
  use.attributes = {{"scale", core->scale}, {"merges_heads", int64_t{last != &node}}};
  TakeSurroundings(walker, *last, use);
  return use;
}

}  // namespace tandem

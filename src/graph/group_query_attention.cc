#include "graph/group_query_attention.h"

#include <algorithm>
#include <cmath>

namespace tandem {

std::optional<AttentionUse> MatchGroupQueryAttention(const Walker& walker, const Node& node) {
  enum { kQuery, kKey, kValue, kPastKey, kPastValue, kLast, kTotal, kCos, kSin, kInputs };
  enum { kResult, kPresentKey, kPresentValue, kOutputs };
  using Ports = AttentionPorts;
  if (!IsOp(node, "GroupQueryAttention", kMicrosoftDomain)) return std::nullopt;
  const auto is_left_out = [](const std::vector<ValueId>& values, size_t from) {
    return std::all_of(values.begin() + static_cast<std::ptrdiff_t>(std::min(from, values.size())),
                       values.end(), [](ValueId v) { return v == kNoValue; });
  };
  if (FloatAttribute(node, "softcap", 0) != 0 || IntAttribute(node, "smooth_softmax", 0) > 0 ||
      IntAttribute(node, "local_window_size", -1) > 0 || IntAttribute(node, "qk_output", 0) != 0 ||
      IntAttribute(node, "kv_cache_bit_width", 0) != 0 || !is_left_out(node.inputs, kInputs) ||
      !is_left_out(node.outputs, kOutputs)) {
    return std::nullopt;
  }
  const auto has = [&node](size_t input) { return Input(node, input) != kNoValue; };
  const Shape* q = walker.FloatShape(Input(node, kQuery), 3);
  const int64_t heads = IntAttribute(node, "num_heads", 0);
  const int64_t kv_heads = IntAttribute(node, "kv_num_heads", 0);
  if (q == nullptr || heads <= 0 || kv_heads <= 0 || heads % kv_heads != 0 || (*q)[2] <= 0 ||
      has(kKey) != has(kValue) || has(kPastKey) != has(kPastValue) || !has(kLast) || !has(kTotal)) {
    return std::nullopt;
  }
  const int64_t parts = has(kKey) ? heads : heads + 2 * kv_heads;
  if ((*q)[2] % parts != 0) return std::nullopt;
  const int64_t size = (*q)[2] / parts;
  for (size_t input : {kKey, kValue}) {
    if (!has(input)) continue;
    const Shape* shape = walker.FloatShape(node.inputs[input], 3);
    if (shape == nullptr || (*shape)[2] != kv_heads * size) return std::nullopt;
  }
  // Both caches are there; what they hold is read by nobody else in the graph.
  const auto is_present = [&](size_t output) {
    const ValueId present = output < node.outputs.size() ? node.outputs[output] : kNoValue;
    return present != kNoValue && walker.FloatShape(present, 4) != nullptr &&
           walker.index().Consumers(present).empty();
  };
  if (!is_present(kPresentKey) || !is_present(kPresentValue)) return std::nullopt;
  for (size_t input : {kPastKey, kPastValue}) {
    if (has(input) && (walker.FloatShape(node.inputs[input], 4) == nullptr ||
                       !walker.IsFed(node.inputs[input]))) {
      return std::nullopt;
    }
  }
  const bool rotates = IntAttribute(node, "do_rotary", 0) == 1;
  if (rotates && (!has(kCos) || !has(kSin) || walker.FloatShape(node.inputs[kCos], 2) == nullptr ||
                  walker.FloatShape(node.inputs[kSin], 2) == nullptr)) {
    return std::nullopt;
  }

  AttentionUse use;
  use.inputs = {Input(node, kQuery),
                Input(node, kKey),
                Input(node, kValue),
                kNoValue,
                rotates ? node.inputs[kCos] : kNoValue,
                rotates ? node.inputs[kSin] : kNoValue,
                Input(node, kLast),
                Input(node, kTotal),
                Input(node, kPastKey),
                Input(node, kPastValue)};
  static_assert(Ports::kPastValue == 9 && Ports::kCos == 4);
  use.outputs = {node.outputs[kResult], node.outputs[kPresentKey], node.outputs[kPresentValue]};
  const float scale = FloatAttribute(node, "scale", 0);
  use.attributes = {{"scale", scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(size))},
                    {"heads", heads},
                    {"kv_heads", kv_heads},
                    {"merges_heads", int64_t{1}},
                    {"is_interleaved", IntAttribute(node, "rotary_interleaved", 0)}};
  return use;
}

}  // namespace tandem

#include "device/ops/attention.h"

#include <algorithm>

namespace tandem {

Attention::Attention(const ov::OutputVector& inputs, AttentionSettings settings)
    : Op(inputs), settings_(std::move(settings)) {
  constructor_validate_and_infer_types();
}

bool Attention::visit_attributes(ov::AttributeVisitor& visitor) {
  visitor.on_attribute("inputs", settings_.inputs);
  visitor.on_attribute("scale", settings_.scale);
  visitor.on_attribute("heads", settings_.heads);
  visitor.on_attribute("kv_heads", settings_.kv_heads);
  visitor.on_attribute("merges_heads", settings_.merges_heads);
  visitor.on_attribute("is_interleaved", settings_.is_interleaved);
  visitor.on_attribute("cache", settings_.cache);
  return true;
}

int64_t Attention::Find(AttentionInput input) const {
  const auto found =
      std::find(settings_.inputs.begin(), settings_.inputs.end(), static_cast<int64_t>(input));
  return found == settings_.inputs.end() ? -1 : found - settings_.inputs.begin();
}

void Attention::validate_and_infer_types() {
  NODE_VALIDATION_CHECK(this, get_input_size() == settings_.inputs.size(), "expected ",
                        settings_.inputs.size(), " inputs, found ", get_input_size());
  for (size_t i = 0; i < settings_.inputs.size(); ++i) {
    const int64_t input = settings_.inputs[i];
    NODE_VALIDATION_CHECK(this,
                          input >= 0 && input <= static_cast<int64_t>(AttentionInput::kAddress) &&
                              Find(static_cast<AttentionInput>(input)) == static_cast<int64_t>(i),
                          "input ", i, " is unknown or there twice");
    const auto type =
        input >= static_cast<int64_t>(AttentionInput::kLast) ? ov::element::i32 : ov::element::f32;
    NODE_VALIDATION_CHECK(this, get_input_element_type(i) == type, "expected ", type, ", found ",
                          get_input_element_type(i));
  }
  const auto has = [this](AttentionInput input) { return Find(input) >= 0; };
  const auto shape_of = [this](AttentionInput input) -> const ov::PartialShape& {
    return get_input_partial_shape(static_cast<size_t>(Find(input)));
  };
  NODE_VALIDATION_CHECK(this,
                        has(AttentionInput::kQuery) &&
                            has(AttentionInput::kKey) == has(AttentionInput::kValue) &&
                            has(AttentionInput::kCos) == has(AttentionInput::kSin) &&
                            has(AttentionInput::kLast) == has(AttentionInput::kTotal) &&
                            has(AttentionInput::kAddress) == (settings_.cache >= 0),
                        "inputs that belong together are missing");
  if (settings_.cache >= 0) {
    const ov::PartialShape& addresses = shape_of(AttentionInput::kAddress);
    const auto end = (settings_.cache + 2) * static_cast<int64_t>(kAddressElements);
    NODE_VALIDATION_CHECK(
        this, addresses.is_static() && addresses.size() == 1 && end <= addresses[0].get_length(),
        "caches ", settings_.cache, " and the next are not among ", addresses);
  }
  const ov::PartialShape& q = shape_of(AttentionInput::kQuery);
  const bool is_packed = !has(AttentionInput::kKey);
  NODE_VALIDATION_CHECK(this,
                        q.rank().is_static() && (q.size() == 3 || q.size() == 4) &&
                            q[q.size() - 1].is_static() && (!is_packed || q.size() == 3),
                        "expected queries [b, n, s, d] or [b, s, n * d], found ", q);
  ov::Dimension::value_type heads = settings_.heads;
  ov::Dimension::value_type size = 0;
  if (q.size() == 4) {
    NODE_VALIDATION_CHECK(this, q[1].is_static(), "expected a known number of heads, found ", q);
    heads = q[1].get_length();
    size = q[3].get_length();
  } else {
    const auto width = q[2].get_length();
    const auto parts = is_packed ? heads + 2 * settings_.kv_heads : heads;
    NODE_VALIDATION_CHECK(this, heads > 0 && settings_.kv_heads > 0 && width % parts == 0,
                          "expected ", parts, " heads in ", q);
    size = width / parts;
  }
  const auto check_heads = [&](ov::Dimension::value_type kv_heads) {
    NODE_VALIDATION_CHECK(this, kv_heads > 0 && heads > 0 && size > 0 && heads % kv_heads == 0,
                          kv_heads, " heads of keys or values for ", heads, " of queries");
  };
  if (is_packed) check_heads(settings_.kv_heads);
  for (AttentionInput input : {AttentionInput::kKey, AttentionInput::kValue}) {
    if (is_packed) break;
    const ov::PartialShape& x = shape_of(input);
    const bool has_heads = x.rank().is_static() && x.size() == 4;
    NODE_VALIDATION_CHECK(
        this,
        x.rank().is_static() && (x.size() == 3 || x.size() == 4) && x[0].compatible(q[0]) &&
            (!has_heads || x[1].is_static()) &&
            x[x.size() - 1] == ov::Dimension(has_heads ? size : size * settings_.kv_heads),
        "expected keys and values [b, m, t, d] or [b, t, m * d] with d = ", size, ", found ", x);
    check_heads(has_heads ? x[1].get_length() : settings_.kv_heads);
  }
  const ov::Dimension& tokens = q[q.size() == 4 ? 2 : 1];
  set_output_type(0, ov::element::f32,
                  settings_.merges_heads ? ov::PartialShape{q[0], tokens, heads * size}
                                         : ov::PartialShape{q[0], heads, tokens, size});
}

std::shared_ptr<ov::Node> Attention::clone_with_new_inputs(const ov::OutputVector& inputs) const {
  return std::make_shared<Attention>(inputs, settings_);
}

bool Attention::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
  AttentionInputs by_kind(static_cast<size_t>(AttentionInput::kAddress) + 1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    by_kind[static_cast<size_t>(settings_.inputs[i])] = &inputs[i];
  }
  RunAttention(*this, settings_, by_kind, outputs[0]);
  return true;
}

}  // namespace tandem

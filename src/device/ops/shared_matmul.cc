#include "device/ops/shared_matmul.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/strings.h"

namespace tandem {
namespace {

ov::Shape BroadcastShape(const ov::Node& op, const ov::Shape& a, const ov::Shape& b) {
  ov::PartialShape both = a;
  if (!ov::PartialShape::broadcast_merge_into(both, b, ov::op::AutoBroadcastType::NUMPY)) {
    throw Error(ErrorCode::kInvalidArgument,
                Concat(op.get_friendly_name(), ": ", a, " and ", b, " do not broadcast"));
  }
  return both.to_shape();
}

std::optional<Activation> ActivationOf(std::string_view gate) {
  if (gate == "silu") return Activation::kSilu;
  if (gate == "gelu") return Activation::kGelu;
  if (gate == "gelu_tanh") return Activation::kGeluTanh;
  return std::nullopt;
}

}  // namespace

SharedMatMul::SharedMatMul(const ov::OutputVector& inputs, int64_t argument, int64_t n, int64_t k,
                           MatMulSettings settings)
    : SharedOp(inputs, argument, n, k), settings_(std::move(settings)) {
  constructor_validate_and_infer_types();
}

bool SharedMatMul::visit_attributes(ov::AttributeVisitor& visitor) {
  visitor.on_attribute("more_n", settings_.more_n);
  visitor.on_attribute("int8", settings_.int8);
  visitor.on_attribute("normalizes", settings_.normalizes);
  visitor.on_attribute("epsilon", settings_.epsilon);
  visitor.on_attribute("addends", settings_.addends);
  visitor.on_attribute("gate", settings_.gate);
  return SharedOp::visit_attributes(visitor);
}

void SharedMatMul::validate_and_infer_types() {
  const size_t expected = first_addend() + settings_.addends.size() + 1;
  NODE_VALIDATION_CHECK(this, get_input_size() == expected, "expected ", expected,
                        " inputs: x, addends, slots and perhaps the weight of a norm; found ",
                        get_input_size());
  ValidateSlots(static_cast<int64_t>(products()));
  NODE_VALIDATION_CHECK(this, get_input_element_type(0) == ov::element::f32,
                        "expected x of f32, found ", get_input_element_type(0));
  const ov::PartialShape& x = get_input_partial_shape(0);
  NODE_VALIDATION_CHECK(
      this, x.rank().is_static() && x.size() > 0 && x[x.size() - 1].compatible(ov::Dimension(k_)),
      "expected x [..., ", k_, "], found ", x);
  NODE_VALIDATION_CHECK(
      this,
      !settings_.normalizes || (get_input_element_type(1) == ov::element::f32 &&
                                get_input_partial_shape(1).compatible(ov::PartialShape{k_})),
      "expected the f32 weight [", k_, "] of a norm, found ", get_input_partial_shape(1));
  std::vector<ov::PartialShape> shapes(products(), x);
  for (size_t i = 0; i < shapes.size(); ++i) shapes[i][x.size() - 1] = N(i);
  for (size_t i = 0; i < settings_.addends.size(); ++i) {
    const int64_t product = settings_.addends[i];
    NODE_VALIDATION_CHECK(this, product >= 0 && product < static_cast<int64_t>(products()),
                          "addend to product ", product);
    ov::PartialShape& shape = shapes[static_cast<size_t>(product)];
    const size_t input = first_addend() + i;
    const ov::PartialShape& addend = get_input_partial_shape(input);
    NODE_VALIDATION_CHECK(
        this,
        get_input_element_type(input) == ov::element::f32 && addend.rank().is_static() &&
            ov::PartialShape::broadcast_merge_into(shape, addend, ov::op::AutoBroadcastType::NUMPY),
        "expected an f32 addend that fits ", shape, ", found ", addend);
  }
  if (is_gated()) {
    NODE_VALIDATION_CHECK(this, ActivationOf(settings_.gate), "unknown gate '", settings_.gate,
                          "'");
    NODE_VALIDATION_CHECK(
        this,
        (products() == kGated || products() == kGated + 1) && N(1) == n_ && shapes[0] == shapes[1],
        "a gate takes two products of one shape");
    shapes = {shapes.back()};
  }
  set_output_size(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) set_output_type(i, ov::element::f32, shapes[i]);
}

std::shared_ptr<ov::Node> SharedMatMul::clone_with_new_inputs(
    const ov::OutputVector& inputs) const {
  return std::make_shared<SharedMatMul>(inputs, argument_, n_, k_, settings_);
}

std::vector<Product> SharedMatMul::MakeProducts(const ov::TensorVector& inputs) const {
  std::vector<Product> made;
  for (size_t i = 0; i < products(); ++i) {
    const WeightForm& form = Weight(inputs.back(), static_cast<int64_t>(i), N(i), K(i));
    if (!form.packed) {
      throw Error(ErrorCode::kInternal, get_friendly_name() + ": weight not packed");
    }
    ov::Shape shape = inputs.front().get_shape();
    shape.back() = form.packed->n();
    made.emplace_back(*form.packed, shape);
  }
  for (size_t i = 0; i < settings_.addends.size(); ++i) {
    Product& product = made[static_cast<size_t>(settings_.addends[i])];
    const ov::Shape& addend = inputs[first_addend() + i].get_shape();
    product.Repeat(BroadcastShape(*this, product.result(), addend));
  }
  for (size_t i = 0; i < settings_.addends.size(); ++i) {
    Product& product = made[static_cast<size_t>(settings_.addends[i])];
    if (product.repeats()) continue;
    product.AddTo(BroadcastRows(*this, inputs[first_addend() + i], product.shape()));
  }
  return made;
}

bool SharedMatMul::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
  const ov::Tensor& x = inputs.front();
  const uint64_t rows = x.get_size() / static_cast<uint64_t>(k_);
  Norm norm;
  if (settings_.normalizes) norm = {inputs[1].data<const float>(), settings_.epsilon};

  std::vector<Product> of_x = MakeProducts(inputs);
  std::vector<Product> last;  // behind the gate
  if (is_gated() && of_x.size() > kGated) {
    last.push_back(std::move(of_x.back()));
    of_x.pop_back();
  }
  std::vector<Product>& results = last.empty() ? of_x : last;
  const size_t first = products() - results.size();
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].set_shape(results[i].result());
    if (!results[i].repeats()) results[i].MakeAt(outputs[i].data<float>());
  }
  std::vector<const float*> apart(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (results[i].repeats()) apart[i] = results[i].MakeApart();
  }

  const ProductInput input(x.data<const float>(), rows, norm, settings_.int8, of_x);
  if (is_gated()) {
    ComputeGate(input, of_x, last, outputs[0].data<float>());
  } else {
    ComputeAll(input.x(), rows, of_x);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (apart[i] == nullptr) continue;
    AddRepeated(first + i, apart[i], results[i].shape(), outputs[i], inputs);
  }
  return true;
}

void SharedMatMul::ComputeGate(const ProductInput& input, const std::vector<Product>& gated,
                               std::vector<Product>& last, float* result) const {
  const Activation activation = *ActivationOf(settings_.gate);
  const auto n = static_cast<uint64_t>(n_);
  if (last.empty()) {
    return ComputeGated(input, activation, gated[0], gated[1], {.floats = {result, n}});
  }
  if (settings_.int8 && IsQuantized(last[0].w())) {
    QuantizedRows codes(last[0].w(), input.rows());
    ComputeGated(input, activation, gated[0], gated[1], {.floats = {}, .codes = &codes});
    last[0].Read(codes);
    return ComputeAll(nullptr, input.rows(), last);
  }
  const auto rows = std::make_unique_for_overwrite<float[]>(input.rows() * n);
  ComputeGated(input, activation, gated[0], gated[1], {.floats = {rows.get(), n}});
  ComputeAll(rows.get(), input.rows(), last);
}

uint64_t SharedMatMul::WeightBytes(const ov::Tensor& slots) const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < products(); ++i) {
    bytes += Weight(slots, static_cast<int64_t>(i), N(i), K(i)).bytes();
  }
  return bytes;
}

void SharedMatMul::AddRepeated(size_t product, const float* y, const ov::Shape& shape,
                               ov::Tensor& output, const ov::TensorVector& inputs) const {
  const ov::Tensor computed(ov::element::f32, shape, const_cast<float*>(y));
  const ov::Shape& result = output.get_shape();
  std::vector<BroadcastRows> terms{BroadcastRows(*this, computed, result)};
  for (size_t i = 0; i < settings_.addends.size(); ++i) {
    if (static_cast<size_t>(settings_.addends[i]) != product) continue;
    terms.emplace_back(*this, inputs[first_addend() + i], result);
  }
  const uint64_t n = result.back();
  auto* out = output.data<float>();
  std::fill_n(out, output.get_size(), 0.0F);
  for (uint64_t row = 0; row < output.get_size() / n; ++row, out += n) {
    for (const BroadcastRows& term : terms) AddRow(term, row, {0, n}, out);
  }
}

}  // namespace tandem

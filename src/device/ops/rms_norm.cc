#include "device/ops/rms_norm.h"

#include "base/bytes.h"
#include "device/parallel.h"
#include "kernels/kernels.h"

namespace tandem {

RmsNorm::RmsNorm(const ov::OutputVector& inputs, float epsilon) : Op(inputs), epsilon_(epsilon) {
  constructor_validate_and_infer_types();
}

bool RmsNorm::visit_attributes(ov::AttributeVisitor& visitor) {
  visitor.on_attribute("epsilon", epsilon_);
  return true;
}

void RmsNorm::validate_and_infer_types() {
  NODE_VALIDATION_CHECK(this, get_input_size() == 2, "expected x and weight");
  const ov::PartialShape& x = get_input_partial_shape(0);
  const ov::PartialShape& weight = get_input_partial_shape(1);
  NODE_VALIDATION_CHECK(this,
                        get_input_element_type(0) == ov::element::f32 &&
                            get_input_element_type(1) == ov::element::f32,
                        "expected f32, found ", get_input_element_type(0), " and ",
                        get_input_element_type(1));
  NODE_VALIDATION_CHECK(this,
                        x.rank().is_static() && x.size() > 0 && weight.is_static() &&
                            weight.size() == 1 && weight[0].get_length() > 0 &&
                            x[x.size() - 1].compatible(weight[0]),
                        "expected x [.., d] and weight [d], found ", x, " and ", weight);
  set_output_type(0, ov::element::f32, x);
}

std::shared_ptr<ov::Node> RmsNorm::clone_with_new_inputs(const ov::OutputVector& inputs) const {
  return std::make_shared<RmsNorm>(inputs, epsilon_);
}

bool RmsNorm::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
  const RmsNormKernel kernel = ActiveKernels().rms_norm;
  outputs[0].set_shape(inputs[0].get_shape());
  const size_t size = inputs[1].get_size();
  const auto* x = inputs[0].data<const float>();
  const auto* weight = inputs[1].data<const float>();
  auto* out = outputs[0].data<float>();
  const uint64_t grain = CeilDivide(kSerialElements, size);
  ParallelRanges(inputs[0].get_size() / size, grain, [&](uint64_t first, uint64_t last) {
    for (uint64_t row = first; row < last; ++row) {
      kernel(x + row * size, weight, epsilon_, size, out + row * size);
    }
  });
  return true;
}

}  // namespace tandem

#include "device/ops/rotary_embedding.h"

#include "base/bytes.h"
#include "device/ops/broadcast.h"
#include "device/parallel.h"
#include "kernels/rotary_embedding.h"

namespace tandem {

RotaryEmbedding::RotaryEmbedding(const ov::OutputVector& inputs) : Op(inputs) {
  constructor_validate_and_infer_types();
}

void RotaryEmbedding::validate_and_infer_types() {
  NODE_VALIDATION_CHECK(this, get_input_size() == 3, "expected x, cos and sin");
  const ov::PartialShape& x = get_input_partial_shape(0);
  for (size_t i = 0; i < 3; ++i) {
    NODE_VALIDATION_CHECK(this, get_input_element_type(i) == ov::element::f32,
                          "expected f32, found ", get_input_element_type(i));
    const ov::PartialShape& shape = get_input_partial_shape(i);
    NODE_VALIDATION_CHECK(this,
                          shape.rank().is_static() && shape.size() > 0 &&
                              shape[shape.size() - 1] == x[x.size() - 1] &&
                              x[x.size() - 1].is_static() && shape.size() <= x.size(),
                          "expected x [.., d], cos and sin [.., d], found ", x, " and ", shape);
  }
  set_output_type(0, ov::element::f32, x);
}

std::shared_ptr<ov::Node> RotaryEmbedding::clone_with_new_inputs(
    const ov::OutputVector& inputs) const {
  return std::make_shared<RotaryEmbedding>(inputs);
}

bool RotaryEmbedding::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
  const ov::Shape& shape = inputs[0].get_shape();
  outputs[0].set_shape(shape);
  const size_t size = shape.back();
  const BroadcastRows cos(*this, inputs[1], shape);
  const BroadcastRows sin(*this, inputs[2], shape);
  const auto* x = inputs[0].data<const float>();
  auto* out = outputs[0].data<float>();
  const uint64_t grain = CeilDivide(kSerialElements, size);
  ParallelRanges(inputs[0].get_size() / size, grain, [&](uint64_t first, uint64_t last) {
    for (uint64_t row = first; row < last; ++row) {
      RotateRow(x + row * size, cos.Row(row), sin.Row(row), size, out + row * size);
    }
  });
  return true;
}

}  // namespace tandem

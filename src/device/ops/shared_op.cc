#include "device/ops/shared_op.h"

#include "base/error.h"
#include "base/strings.h"

namespace tandem {

bool SharedOp::visit_attributes(ov::AttributeVisitor& visitor) {
  visitor.on_attribute("argument", argument_);
  visitor.on_attribute("n", n_);
  visitor.on_attribute("k", k_);
  return true;
}

void SharedOp::ValidateSlots(int64_t count) {
  const size_t last = get_input_size() - 1;
  NODE_VALIDATION_CHECK(this, get_input_element_type(last) == ov::element::i32,
                        "expected slots of i32, found ", get_input_element_type(last));
  const ov::PartialShape& slots = get_input_partial_shape(last);
  NODE_VALIDATION_CHECK(this, n_ > 0 && k_ > 0 && argument_ >= 0, "n, k or argument is not set");
  NODE_VALIDATION_CHECK(
      this, slots.is_static() && slots.size() == 1 && argument_ + count <= slots[0].get_length(),
      count, " arguments from ", argument_, " on are not among the slots ", slots);
}

const WeightForm& SharedOp::Weight(const ov::Tensor& slots, int64_t index, int64_t n,
                                   int64_t k) const {
  const int32_t number = slots.data<const int32_t>()[argument_ + index];
  const WeightForm& form = WeightSlot::At(number);
  const Shape found = form.packed ? Shape{static_cast<int64_t>(form.packed->n()),
                                          static_cast<int64_t>(form.packed->k())}
                                  : form.plain->shape;
  if (found != Shape{n, k}) {
    throw Error(ErrorCode::kInternal,
                Concat(get_friendly_name(), ": slot ", number, " holds a weight ", ShapeText(found),
                       ", expected ", ShapeText(Shape{n, k})));
  }
  return form;
}

}  // namespace tandem

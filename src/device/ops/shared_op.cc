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

void SharedOp::ValidateSlots() {
  NODE_VALIDATION_CHECK(this, get_input_size() == 2, "expected two inputs");
  NODE_VALIDATION_CHECK(this, get_input_element_type(1) == ov::element::i32,
                        "expected slots of i32, found ", get_input_element_type(1));
  const ov::PartialShape& slots = get_input_partial_shape(1);
  NODE_VALIDATION_CHECK(this, n_ > 0 && k_ > 0 && argument_ >= 0, "n, k or argument is not set");
  NODE_VALIDATION_CHECK(this,
                        slots.is_static() && slots.size() == 1 && argument_ < slots[0].get_length(),
                        "argument ", argument_, " is not among the slots ", slots);
}

const WeightForm& SharedOp::Weight(const ov::Tensor& slots) const {
  const WeightForm& form = WeightSlot::At(slots.data<const int32_t>()[argument_]);
  const Shape found = form.packed ? Shape{static_cast<int64_t>(form.packed->n()),
                                          static_cast<int64_t>(form.packed->k())}
                                  : form.plain->shape;
  if (found != Shape{n_, k_}) {
    throw Error(
        ErrorCode::kInternal,
        Concat(get_friendly_name(), ": slot ", slots.data<const int32_t>()[argument_],
               " holds a weight ", ShapeText(found), ", expected ", ShapeText(Shape{n_, k_})));
  }
  return form;
}

}  // namespace tandem

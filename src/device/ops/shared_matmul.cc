#include "device/ops/shared_matmul.h"

#include "base/error.h"
#include "device/parallel.h"
#include "kernels/kernels.h"

namespace tandem {
namespace {

// Multiply-adds below which a second thread costs more than it saves: some ten microseconds of one.
constexpr uint64_t kSerialMacs = 200'000;
constexpr uint64_t kSerialElements = 16 * 1024;  // to quantize

}  // namespace

SharedMatMul::SharedMatMul(const ov::Output<ov::Node>& x, const ov::Output<ov::Node>& slots,
                           int64_t argument, int64_t n, int64_t k, bool int8)
    : SharedOp({x, slots}, argument, n, k), int8_(int8) {
  constructor_validate_and_infer_types();
}

bool SharedMatMul::visit_attributes(ov::AttributeVisitor& visitor) {
  visitor.on_attribute("int8", int8_);
  return SharedOp::visit_attributes(visitor);
}

void SharedMatMul::validate_and_infer_types() {
  ValidateSlots();
  NODE_VALIDATION_CHECK(this, get_input_element_type(0) == ov::element::f32,
                        "expected x of f32, found ", get_input_element_type(0));
  ov::PartialShape shape = get_input_partial_shape(0);
  NODE_VALIDATION_CHECK(this,
                        shape.rank().is_static() && shape.size() > 0 &&
                            shape[shape.size() - 1].compatible(ov::Dimension(k_)),
                        "expected x [..., ", k_, "], found ", shape);
  shape[shape.size() - 1] = n_;
  set_output_type(0, ov::element::f32, shape);
}

std::shared_ptr<ov::Node> SharedMatMul::clone_with_new_inputs(
    const ov::OutputVector& inputs) const {
  return std::make_shared<SharedMatMul>(inputs.at(0), inputs.at(1), argument_, n_, k_, int8_);
}

bool SharedMatMul::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
  static const Kernels& kernels = KernelsFor(ActiveIsa());
  const WeightForm& form = Weight(inputs[1]);
  if (!form.packed) throw Error(ErrorCode::kInternal, get_friendly_name() + ": weight not packed");
  const PackedMatrix& w = *form.packed;

  ov::Shape shape = inputs[0].get_shape();
  shape.back() = w.n();
  outputs[0].set_shape(shape);
  const uint64_t rows = inputs[0].get_size() / w.k();
  const auto* x = inputs[0].data<const float>();
  auto* y = outputs[0].data<float>();
  const uint64_t macs_of_panel = rows * w.k() * kPanelOutputs;
  const uint64_t grain = CeilDivide(kSerialMacs, std::max<uint64_t>(1, macs_of_panel));
  if (!int8_ || (w.layout() != Layout::kU4 && w.layout() != Layout::kU8)) {
    ParallelRanges(w.panels(), grain, [&](uint64_t first, uint64_t last) {
      kernels.matmul(w, x, rows, y, first, last);
    });
    return true;
  }
  QuantizedRows codes(w, rows);
  ParallelRanges(rows, CeilDivide(kSerialElements, w.k()),
                 [&](uint64_t first, uint64_t last) { kernels.quantize(x, codes, first, last); });
  ParallelRanges(w.panels(), grain, [&](uint64_t first, uint64_t last) {
    kernels.matmul_int8(w, codes, y, first, last);
  });
  return true;
}

}  // namespace tandem

#include "device/ops/shared_gather.h"

#include <cstring>

#include "base/error.h"
#include "base/strings.h"
#include "kernels/matrix_source.h"

namespace tandem {
namespace {

void CopyRow(const WeightForm& form, uint64_t row, uint64_t k, float* out) {
  if (form.packed) return form.packed->CopyOutput(row, out);
  const Tensor& table = *form.plain;
  if (table.type == DataType::kFloat32) {
    std::memcpy(out, table.data + row * k * sizeof(float), k * sizeof(float));
    return;
  }
  const ElementRows rows{table.type, table.data, k};
  for (uint64_t i = 0; i < k; ++i) out[i] = ReadFloat(rows, row * k + i);
}

}  // namespace

SharedGather::SharedGather(const ov::Output<ov::Node>& indices, const ov::Output<ov::Node>& slots,
                           int64_t argument, int64_t n, int64_t k)
    : SharedOp({indices, slots}, argument, n, k) {
  constructor_validate_and_infer_types();
}

void SharedGather::validate_and_infer_types() {
  ValidateSlots(1);
  const ov::element::Type type = get_input_element_type(0);
  NODE_VALIDATION_CHECK(this, type == ov::element::i32 || type == ov::element::i64,
                        "expected indices of i32 or i64, found ", type);
  ov::PartialShape shape = get_input_partial_shape(0);
  if (shape.rank().is_static()) shape.push_back(k_);
  set_output_type(0, ov::element::f32, shape);
}

std::shared_ptr<ov::Node> SharedGather::clone_with_new_inputs(
    const ov::OutputVector& inputs) const {
  return std::make_shared<SharedGather>(inputs.at(0), inputs.at(1), argument_, n_, k_);
}

bool SharedGather::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
  const WeightForm& form = Weight(inputs[1], 0, n_, k_);
  const ov::Tensor& indices = inputs[0];
  ov::Shape shape = indices.get_shape();
  shape.push_back(static_cast<size_t>(k_));
  outputs[0].set_shape(shape);
  auto* out = outputs[0].data<float>();
  for (size_t i = 0; i < indices.get_size(); ++i) {
    const int64_t index = indices.get_element_type() == ov::element::i64
                              ? indices.data<const int64_t>()[i]
                              : indices.data<const int32_t>()[i];
    const int64_t row = index < 0 ? index + n_ : index;
    if (row < 0 || row >= n_) {
      throw Error(ErrorCode::kInvalidArgument, Concat(get_friendly_name(), ": index ", index,
                                                      " is outside [", -n_, ", ", n_ - 1, "]"));
    }
    CopyRow(form, static_cast<uint64_t>(row), static_cast<uint64_t>(k_), out);
    out += k_;
  }
  return true;
}

}  // namespace tandem

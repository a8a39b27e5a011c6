#pragma once

#include "device/ops/shared_op.h"

namespace tandem {

// y [..., n] = x [..., k] times the packed weight in its slot; f32, on the kernels of src/kernels.
// With `int8`, x is quantized to 8 bits first where the weight is (kernels/matmul_int8.h).
class SharedMatMul : public SharedOp {
 public:
  OPENVINO_OP("SharedMatMul", "tandem")

  SharedMatMul() = default;
  SharedMatMul(const ov::Output<ov::Node>& x, const ov::Output<ov::Node>& slots, int64_t argument,
               int64_t n, int64_t k, bool int8);

  bool visit_attributes(ov::AttributeVisitor& visitor) override;

  void validate_and_infer_types() override;
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;

 private:
  bool int8_ = false;
};

}  // namespace tandem

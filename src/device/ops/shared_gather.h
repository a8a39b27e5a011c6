#pragma once

#include "device/ops/shared_op.h"

namespace tandem {

// y [..., k] f32 = the rows of the weight [n, k] in its slot that the indices [...] (i32 or i64)
// name: an embedding look-up. The weight is packed, where a SharedMatMul needs it so, or plain.
// Negative indices count from the end; those beyond either end are an Error(kInvalidArgument), as
// in ONNX.
class SharedGather : public SharedOp {
 public:
  OPENVINO_OP("SharedGather", "tandem")

  SharedGather() = default;
  SharedGather(const ov::Output<ov::Node>& indices, const ov::Output<ov::Node>& slots,
               int64_t argument, int64_t n, int64_t k);

  void validate_and_infer_types() override;
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;
};

}  // namespace tandem

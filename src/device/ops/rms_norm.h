#pragma once

#include <openvino/op/op.hpp>

namespace tandem {

// Root mean square normalization (kernels/row_ops.h) of x [.., d] with a weight [d], f32.
class RmsNorm : public ov::op::Op {
 public:
  OPENVINO_OP("RmsNorm", "tandem")

  RmsNorm() = default;
  // x, weight.
  RmsNorm(const ov::OutputVector& inputs, float epsilon);

  bool visit_attributes(ov::AttributeVisitor& visitor) override;
  void validate_and_infer_types() override;
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;
  bool has_evaluate() const override { return true; }

 private:
  float epsilon_ = 0;
};

}  // namespace tandem

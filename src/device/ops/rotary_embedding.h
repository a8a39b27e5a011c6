#pragma once

#include <openvino/op/op.hpp>

namespace tandem {

// Rotary position embedding of x [.., d], f32, as in kernels/rotary_embedding.h; cos and sin [..,
// d] broadcast to x.
class RotaryEmbedding : public ov::op::Op {
 public:
  OPENVINO_OP("RotaryEmbedding", "tandem")

  RotaryEmbedding() = default;
  // x, cos, sin.
  explicit RotaryEmbedding(const ov::OutputVector& inputs);

  void validate_and_infer_types() override;
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;
  bool has_evaluate() const override { return true; }
};

}  // namespace tandem

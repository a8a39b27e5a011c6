#pragma once

#include <openvino/op/op.hpp>

namespace tandem {

// Scaled dot-product attention in f32, on the kernels of src/kernels:
//
//   q [b, n, s, d], k and v [b, m, t, d], bias, if there is one, broadcast to [b, n, s, t]
//   -> [b, n, s, d] = softmax(scale * q k^T + bias) v
//
// n is a multiple of m: each head of k and v serves n / m heads of q, in order. m may differ
// between k and v.
class Attention : public ov::op::Op {
 public:
  OPENVINO_OP("Attention", "tandem")

  Attention() = default;
  // q, k, v and perhaps bias.
  Attention(const ov::OutputVector& inputs, float scale);

  bool visit_attributes(ov::AttributeVisitor& visitor) override;
  void validate_and_infer_types() override;
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;
  bool has_evaluate() const override { return true; }

 private:
  float scale_ = 1;
};

}  // namespace tandem

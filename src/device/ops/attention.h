#pragma once

#include <openvino/op/op.hpp>

#include "device/ops/attention_run.h"

namespace tandem {

// Scaled dot-product attention on the kernels of src/kernels: softmax(scale * q k^T + bias) v.
//
// n is a multiple of m: each head of k and v serves n / m heads of q, in order. With caches, the
// new keys (rotated) and values are put behind the past ones, and all are attended to. With kLast
// and kTotal it is com.microsoft.GroupQueryAttention
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md): the new rows end
// where kLast says, inside of a cache of max(past rows, total) rows.
class Attention : public ov::op::Op {
 public:
  OPENVINO_OP("Attention", "tandem")

  Attention() = default;
  Attention(const ov::OutputVector& inputs, AttentionSettings settings);

  bool visit_attributes(ov::AttributeVisitor& visitor) override;
  void validate_and_infer_types() override;
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;
  bool has_evaluate() const override { return true; }

 private:
  // Position of an input; -1 when it is left out.
  int64_t Find(AttentionInput input) const;

  AttentionSettings settings_;
};

}  // namespace tandem

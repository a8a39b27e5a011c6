#pragma once

#include <string>
#include <vector>

#include "device/ops/shared_op.h"

namespace tandem {

// What a SharedMatMul does with its products.
struct MatMulEpilogue {
  // Inputs between x and the slots: addend i is added to product addends[i] before anything else.
  std::vector<int64_t> addends;
  // "", "silu", "gelu" or "gelu_tanh", a kernel's Activation (kernels/row_ops.h): the only result
  // is then activation(product 0) * product 1.
  std::string gate;
};

// Products of x [..., k] with packed weights, f32, on the kernels of src/kernels: one [..., n] for
// each weight. They read the same x, so it is quantized once, and the threads meet once.
//
//   x, addends, slots -> products, or their gated product
//
// An addend and its product broadcast to each other; the last dimension stays n. With `int8`, x is
// quantized to 8 bits first where the weight is (kernels/matmul_int8.h).
class SharedMatMul : public SharedOp {
 public:
  OPENVINO_OP("SharedMatMul", "tandem")

  SharedMatMul() = default;
  // `more_n`: outputs of the weights after the first, which are in the slots behind its.
  SharedMatMul(const ov::OutputVector& inputs, int64_t argument, int64_t n, int64_t k,
               std::vector<int64_t> more_n, bool int8, MatMulEpilogue epilogue);

  bool visit_attributes(ov::AttributeVisitor& visitor) override;

  void validate_and_infer_types() override;
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;

  // Of all its weights; `slots` is its last input.
  uint64_t WeightBytes(const ov::Tensor& slots) const;

 private:
  // output = the product `y` of `shape` and its addends, each repeated to the output's shape.
  void AddRepeated(size_t product, const float* y, const ov::Shape& shape, ov::Tensor& output,
                   const ov::TensorVector& inputs) const;

  std::vector<int64_t> more_n_;
  bool int8_ = false;
  MatMulEpilogue epilogue_;
};

}  // namespace tandem

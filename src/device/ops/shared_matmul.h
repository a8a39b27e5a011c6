#pragma once

#include <string>
#include <vector>

#include "device/ops/products.h"
#include "device/ops/shared_op.h"

namespace tandem {

// What a SharedMatMul computes beside the first product.
struct MatMulSettings {
  // Outputs of the weights after the first, which are in the slots behind its.
  std::vector<int64_t> more_n;
  // Quantizes to 8 bits what is multiplied with a quantized weight (kernels/matmul_int8.h).
  bool int8 = false;
  // Normalizes x first (RmsNormKernel, kernels/row_ops.h), with the input behind x as weight.
  bool normalizes = false;
  float epsilon = 0;
  // Inputs between these and the slots: addend i is added to product addends[i] before anything
  // else.
  std::vector<int64_t> addends;
  // "", "silu", "gelu" or "gelu_tanh", a kernel's Activation (kernels/row_ops.h): the first two
  // products become activation(product 0) * product 1. A third one is of that, in place of x. The
  // last is the only result.
  std::string gate;
};

// Products of x [..., k] with packed weights, f32, on the kernels of src/kernels: one [..., n] for
// each weight. They read the same x, so it is normalized and quantized once, and the threads meet
// once; or they are a whole gated linear unit.
//
//   x, norm weight, addends, slots -> products, or what a gate makes of them
//
// An addend and its product broadcast to each other; the last dimension stays n.
class SharedMatMul : public SharedOp {
 public:
  OPENVINO_OP("SharedMatMul", "tandem")

  SharedMatMul() = default;
  SharedMatMul(const ov::OutputVector& inputs, int64_t argument, int64_t n, int64_t k,
               MatMulSettings settings);

  bool visit_attributes(ov::AttributeVisitor& visitor) override;

  void validate_and_infer_types() override;
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;

  // Of all its weights; `slots` is its last input.
  uint64_t WeightBytes(const ov::Tensor& slots) const;

 private:
  static constexpr size_t kGated = 2;  // products that a gate takes

  size_t products() const { return settings_.more_n.size() + 1; }
  // Outputs and inputs of a product.
  int64_t N(size_t product) const { return product == 0 ? n_ : settings_.more_n[product - 1]; }
  int64_t K(size_t product) const { return is_gated() && product == kGated ? n_ : k_; }
  bool is_gated() const { return !settings_.gate.empty(); }
  size_t first_addend() const { return settings_.normalizes ? 2 : 1; }

  std::vector<Product> MakeProducts(const ov::TensorVector& inputs) const;
  void ComputeGate(const ProductInput& input, const std::vector<Product>& gated,
                   std::vector<Product>& last, float* result) const;
  // output = a product that repeats and its addends, each repeated to the output's shape.
  void AddRepeated(size_t product, const float* y, const ov::Shape& shape, ov::Tensor& output,
                   const ov::TensorVector& inputs) const;

  MatMulSettings settings_;
};

}  // namespace tandem

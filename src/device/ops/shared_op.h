#pragma once

#include <openvino/op/op.hpp>

#include "device/weights_bank.h"

namespace tandem {

// What SharedMatMul and SharedGather have in common: they use weight matrices of n outputs and k
// inputs, found through the numbers in their last input, i32 [..] of slots, from element `argument`
// on.
class SharedOp : public ov::op::Op {
 public:
  SharedOp() = default;
  SharedOp(const ov::OutputVector& inputs, int64_t argument, int64_t n, int64_t k)
      : Op(inputs), argument_(argument), n_(n), k_(k) {}

  bool visit_attributes(ov::AttributeVisitor& visitor) override;
  bool has_evaluate() const override { return true; }

 protected:
  // Checks the slots' type and that `count` of them begin at `argument`.
  void ValidateSlots(int64_t count);

  // The weight `index`, which must be a matrix of n x k.
  const WeightForm& Weight(const ov::Tensor& slots, int64_t index, int64_t n, int64_t k) const;

  int64_t argument_ = 0;
  int64_t n_ = 0;
  int64_t k_ = 0;
};

}  // namespace tandem

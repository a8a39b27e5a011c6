#pragma once

#include <openvino/core/node.hpp>
#include <openvino/runtime/tensor.hpp>
#include <optional>
#include <vector>

namespace tandem {

// The rows (along the last axis) of an f32 tensor as they repeat over a larger shape
// (https://numpy.org/doc/stable/user/basics.broadcasting.html). Rows of one element are single
// numbers. Borrows the tensor's memory.
class BroadcastRows {
 public:
  // Throws Error(kInvalidArgument), naming `op`, when the tensor does not broadcast to `shape`.
  BroadcastRows(const ov::Node& op, const ov::Tensor& tensor, const ov::Shape& shape);

  // Row `row` of all rows of the larger shape.
  const float* Row(uint64_t row) const;

  // From one element of a row to the next: 1, or 0 for a single number.
  uint64_t step() const { return step_; }

  // From one row to the next along the last axis but one; 0 where it repeats. In elements.
  uint64_t stride() const { return axes_.front().stride; }
  // From any row to the next, if it is the same everywhere.
  std::optional<uint64_t> row_stride() const;

 private:
  struct Axis {
    uint64_t size;    // of the larger shape
    uint64_t stride;  // in elements of the tensor; 0 where it repeats
  };

  const float* data_;
  uint64_t step_ = 1;
  std::vector<Axis> axes_;  // all but the last, from the end
};

}  // namespace tandem

#pragma once

#include <openvino/core/model.hpp>
#include <string>
#include <vector>

#include "device/device.h"

namespace tandem {

// The inputs of a function, and where they are in an OpenVINO model.
struct OvInputs {
  static constexpr size_t kUnused = SIZE_MAX;

  std::vector<Port> ports;
  std::vector<size_t> places;

  // `names`: in the order of Function::inputs(); `found`: the inputs of the model.
  OvInputs(const std::vector<std::string>& names,
           const std::vector<ov::Output<const ov::Node>>& found);

  // The tensor in the shape that input `input` takes: ONNX Runtime lets one element of any rank
  // pass for a scalar. Throws Error(kInvalidArgument) when it does not fit.
  Tensor Fitted(size_t input, Tensor tensor) const;
};

// Throws Error(kInternal) when the numbers differ.
std::vector<Port> OvOutputs(const std::vector<std::string>& names,
                            const std::vector<ov::Output<const ov::Node>>& found);

}  // namespace tandem

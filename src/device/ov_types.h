#pragma once

#include <openvino/core/type/element_type.hpp>
#include <openvino/runtime/tensor.hpp>

#include "device/tensor.h"

namespace tandem {

// Throws Error(kUnsupported) for types that the other side lacks.
ov::element::Type ToOv(DataType type);
DataType FromOv(const ov::element::Type& type);

// The same memory as an OpenVINO tensor that keeps the owner. A tensor without elements may have no
// address, which OpenVINO refuses: it gets one that is never read.
ov::Tensor ViewAsOv(const Tensor& tensor);

}  // namespace tandem

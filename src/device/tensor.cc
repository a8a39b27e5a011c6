#include "device/tensor.h"

#include "base/aligned_buffer.h"

namespace tandem {

Tensor AllocateTensor(DataType type, const Shape& shape) {
  auto buffer = std::make_shared<AlignedBuffer>(TensorBytes(type, shape));
  Tensor tensor{type, shape, buffer->data(), nullptr};
  tensor.owner = std::move(buffer);
  return tensor;
}

}  // namespace tandem

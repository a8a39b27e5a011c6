#pragma once

#include <cstddef>
#include <memory>

#include "base/bytes.h"
#include "base/data_type.h"

namespace tandem {

// Contiguous elements in host memory. `owner` keeps them alive; null means that the caller does.
struct Tensor {
  DataType type = DataType::kUndefined;
  Shape shape;
  std::byte* data = nullptr;
  std::shared_ptr<const void> owner;

  uint64_t bytes() const { return TensorBytes(type, shape); }
};

// New memory, aligned to a cache line, for a tensor of this type and static shape.
Tensor AllocateTensor(DataType type, const Shape& shape);

}  // namespace tandem

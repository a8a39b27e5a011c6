#include "device/ops/broadcast.h"

#include "base/error.h"
#include "base/strings.h"

namespace tandem {

BroadcastRows::BroadcastRows(const ov::Node& op, const ov::Tensor& tensor, const ov::Shape& shape)
    : data_(tensor.data<const float>()) {
  ov::Shape own = tensor.get_shape();
  if (own.empty()) own.push_back(1);
  if (own.back() != shape.back()) step_ = 0;
  bool fits = own.size() <= shape.size() && (own.back() == shape.back() || own.back() == 1);
  uint64_t stride = own.back();
  for (size_t i = 1; fits && i < shape.size(); ++i) {
    const uint64_t size = i < own.size() ? own[own.size() - 1 - i] : 1;
    const uint64_t full = shape[shape.size() - 1 - i];
    fits = size == 1 || size == full;
    axes_.push_back({full, size == 1 ? 0 : stride});
    stride *= size;
  }
  if (fits) return;
  throw Error(ErrorCode::kInvalidArgument, Concat(op.get_friendly_name(), ": found ", own,
                                                  ", expected what broadcasts to ", shape));
}

std::optional<uint64_t> BroadcastRows::row_stride() const {
  std::optional<uint64_t> stride;
  uint64_t next = 0;  // what an outer axis must have to go on
  for (const Axis& axis : axes_) {
    if (axis.size == 1) continue;
    if (stride && axis.stride != next) return std::nullopt;
    if (!stride) stride = axis.stride;
    next = axis.stride * axis.size;
  }
  return stride.value_or(0);
}

const float* BroadcastRows::Row(uint64_t row) const {
  uint64_t offset = 0;
  for (const Axis& axis : axes_) {
    offset += row % axis.size * axis.stride;
    row /= axis.size;
  }
  return data_ + offset;
}

}  // namespace tandem

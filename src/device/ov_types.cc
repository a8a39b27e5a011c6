#include "device/ov_types.h"

#include <algorithm>
#include <array>

#include "base/aligned_buffer.h"
#include "base/error.h"
#include "base/strings.h"

namespace tandem {
namespace {

struct Pair {
  DataType type;
  ov::element::Type_t ov_type;
};

constexpr std::array kPairs{
    Pair{DataType::kFloat32, ov::element::Type_t::f32},
    Pair{DataType::kFloat16, ov::element::Type_t::f16},
    Pair{DataType::kBfloat16, ov::element::Type_t::bf16},
    Pair{DataType::kFloat64, ov::element::Type_t::f64},
    Pair{DataType::kBool, ov::element::Type_t::boolean},
    Pair{DataType::kInt4, ov::element::Type_t::i4},
    Pair{DataType::kInt8, ov::element::Type_t::i8},
    Pair{DataType::kInt16, ov::element::Type_t::i16},
    Pair{DataType::kInt32, ov::element::Type_t::i32},
    Pair{DataType::kInt64, ov::element::Type_t::i64},
    Pair{DataType::kUint4, ov::element::Type_t::u4},
    Pair{DataType::kUint8, ov::element::Type_t::u8},
    Pair{DataType::kUint16, ov::element::Type_t::u16},
    Pair{DataType::kUint32, ov::element::Type_t::u32},
    Pair{DataType::kUint64, ov::element::Type_t::u64},
};

}  // namespace

ov::element::Type ToOv(DataType type) {
  const auto pair =
      std::find_if(kPairs.begin(), kPairs.end(), [&](const Pair& p) { return p.type == type; });
  if (pair == kPairs.end()) {
    throw Error(ErrorCode::kUnsupported, Concat("OpenVINO has no element type ", Name(type)));
  }
  return pair->ov_type;
}

DataType FromOv(const ov::element::Type& type) {
  const auto pair =
      std::find_if(kPairs.begin(), kPairs.end(), [&](const Pair& p) { return type == p.ov_type; });
  if (pair == kPairs.end()) {
    throw Error(ErrorCode::kUnsupported,
                Concat("Tandem has no element type ", type.get_type_name()));
  }
  return pair->type;
}

ov::Tensor ViewAsOv(const Tensor& tensor) {
  static std::byte nothing[AlignedBuffer::kAlignment];
  void* data = tensor.data == nullptr ? nothing : tensor.data;
  ov::Tensor view(ToOv(tensor.type), ov::Shape(tensor.shape.begin(), tensor.shape.end()), data);
  if (!tensor.owner) return view;
  return {view, std::const_pointer_cast<void>(tensor.owner)};
}

}  // namespace tandem

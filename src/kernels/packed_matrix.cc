#include "kernels/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "base/strings.h"

namespace tandem {
namespace {

Layout FloatLayout(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return Layout::kF32;
    case DataType::kFloat16:
      return Layout::kF16;
    case DataType::kBfloat16:
      return Layout::kBf16;
    default:
      throw Error(ErrorCode::kInternal, Concat("no packed layout for ", Name(type)));
  }
}

Layout LayoutFor(const MatrixSource& source) {
  if (!source.scales) return FloatLayout(source.codes.type);
  const Layout layout = BitWidth(source.codes.type) == 4 ? Layout::kU4 : Layout::kU8;
  const uint64_t block_k = source.scales->block_k;
  const bool whole_groups = block_k >= source.k || block_k % GroupInputs(layout) == 0;
  const bool integer_zero_points = !source.zero_points || !IsFloat(source.zero_points->values.type);
  return whole_groups && integer_zero_points ? layout : Layout::kF32;
}

// The zero point of every block, in unsigned codes, when there is one.
std::optional<float> CommonZeroPoint(const MatrixSource& source) {
  const int shift = CodeShift(source.codes.type);
  if (!source.zero_points) return source.default_zero_point + static_cast<float>(shift);
  const BlockValues& blocks = *source.zero_points;
  const float first = source.ZeroPoint(0, 0);
  for (uint64_t n = 0; n < source.n; n += blocks.block_n) {
    for (uint64_t k = 0; k < source.k; k += blocks.block_k) {
      if (source.ZeroPoint(n, k) != first) return std::nullopt;
    }
  }
  return first + static_cast<float>(shift);
}

// Unsigned codes of up to 16 outputs from `first` on: codes[input][16].
void ReadPanelCodes(const MatrixSource& source, uint64_t first, std::vector<uint8_t>& codes) {
  const uint64_t outputs = std::min(kPanelOutputs, source.n - first);
  const uint64_t stride = source.codes.row_elements;
  if (source.order == MatrixOrder::kOutputsFirst) {
    for (uint64_t j = 0; j < outputs; ++j) {
      const uint64_t row = (first + j) * stride;
      for (uint64_t k = 0; k < source.k; ++k) {
        codes[k * kPanelOutputs + j] = ReadCode(source.codes, row + k);
      }
    }
  } else {
    for (uint64_t k = 0; k < source.k; ++k) {
      const uint64_t row = k * stride + first;
      for (uint64_t j = 0; j < outputs; ++j) {
        codes[k * kPanelOutputs + j] = ReadCode(source.codes, row + j);
      }
    }
  }
}

}  // namespace

void Serial(uint64_t count, const std::function<void(uint64_t)>& body) {
  for (uint64_t i = 0; i < count; ++i) body(i);
}

PackedMatrix::PackedMatrix(const PackedSpec& spec) : spec_(spec) {
  panel_bytes_ = CheckedMultiply(CeilDivide(k(), GroupInputs(layout())), GroupBytes(layout()));
  size_ = CheckedMultiply(panels(), panel_bytes_);
  if (!IsQuantized()) return;
  const uint64_t values = CheckedMultiply(panels(), panel_blocks());
  scales_offset_ = size_;
  size_ = CheckedAdd(size_, CheckedMultiply(values, sizeof(float)));
  if (!spec.has_zero_points) return;
  zero_points_offset_ = size_;
  size_ = CheckedAdd(size_, values);
}

PackedMatrix PackedMatrix::Pack(const MatrixSource& source, const ParallelFor& parallel_for) {
  PackedSpec spec{.layout = LayoutFor(source), .n = source.n, .k = source.k};
  if (spec.layout == Layout::kU8 || spec.layout == Layout::kU4) {
    spec.block_k = std::min(source.scales->block_k, source.k);
    const auto common = CommonZeroPoint(source);
    spec.has_zero_points = !common;
    spec.zero_point = common.value_or(0);
  }
  PackedMatrix packed(spec);
  const auto storage = std::make_shared<AlignedBuffer>(packed.size_);
  parallel_for(packed.panels(), [&](uint64_t panel) {
    if (packed.IsQuantized()) {
      packed.PackCodes(source, panel, storage->data());
      packed.PackBlockValues(source, panel, storage->data());
    } else {
      packed.PackFloats(source, panel, storage->data());
    }
  });
  packed.bytes_ = {storage->data(), storage->size()};
  packed.owner_ = storage;
  return packed;
}

PackedMatrix PackedMatrix::View(const PackedSpec& spec, ByteSpan bytes,
                                std::shared_ptr<const void> owner) {
  const auto fail = [](const std::string& what) {
    throw Error(ErrorCode::kInvalidModel, Concat("a packed matrix has ", what));
  };
  if (spec.layout < Layout::kF32 || spec.layout > Layout::kU4) {
    fail(Concat("layout ", static_cast<uint32_t>(spec.layout),
                ", which this version does not know"));
  }
  if (spec.n == 0 || spec.k == 0) fail(Concat(spec.n, " outputs and ", spec.k, " inputs"));
  const bool is_quantized = spec.layout == Layout::kU8 || spec.layout == Layout::kU4;
  if (is_quantized && (spec.block_k == 0 || spec.block_k > spec.k ||
                       (spec.block_k != spec.k && spec.block_k % GroupInputs(spec.layout) != 0))) {
    fail(Concat("blocks of ", spec.block_k, " of ", spec.k, " inputs"));
  }
  PackedMatrix packed(spec);
  if (bytes.size() != packed.size_) {
    fail(Concat(bytes.size(), " bytes, expected ", packed.size_));
  }
  if (reinterpret_cast<uintptr_t>(bytes.data()) % AlignedBuffer::kAlignment != 0) {
    fail("bytes that do not begin at a cache line");
  }
  packed.bytes_ = bytes;
  packed.owner_ = std::move(owner);
  return packed;
}

void PackedMatrix::PackFloats(const MatrixSource& source, uint64_t panel,
                              std::byte* storage) const {
  const uint64_t first = panel * kPanelOutputs;
  const uint64_t outputs = std::min(kPanelOutputs, n() - first);
  std::byte* out = storage + panel * panel_bytes_;
  if (source.scales) {  // a quantized matrix that no layout fits
    for (uint64_t k = 0; k < spec_.k; ++k) {
      for (uint64_t j = 0; j < outputs; ++j) {
        const float value = source.Value(first + j, k);
        std::memcpy(out + (k * kPanelOutputs + j) * sizeof(value), &value, sizeof(value));
      }
    }
    return;
  }
  const uint64_t element = static_cast<uint64_t>(BitWidth(source.codes.type)) / 8;
  const uint64_t stride = source.codes.row_elements;
  const std::byte* in = source.codes.data;
  if (source.order == MatrixOrder::kInputsFirst) {
    for (uint64_t k = 0; k < spec_.k; ++k) {
      std::memcpy(out + k * kPanelOutputs * element, in + (k * stride + first) * element,
                  outputs * element);
    }
    return;
  }
  for (uint64_t j = 0; j < outputs; ++j) {
    const std::byte* row = in + (first + j) * stride * element;
    for (uint64_t k = 0; k < spec_.k; ++k) {
      std::memcpy(out + (k * kPanelOutputs + j) * element, row + k * element, element);
    }
  }
}

void PackedMatrix::PackCodes(const MatrixSource& source, uint64_t panel, std::byte* storage) const {
  const uint64_t inputs = GroupInputs(layout());
  const uint64_t groups = CeilDivide(k(), inputs);
  std::vector<uint8_t> codes(groups * inputs * kPanelOutputs);
  ReadPanelCodes(source, panel * kPanelOutputs, codes);
  auto* out = reinterpret_cast<uint8_t*>(storage + panel * panel_bytes_);
  for (uint64_t group = 0; group < groups; ++group) {
    const uint8_t* in = codes.data() + group * inputs * kPanelOutputs;
    for (uint64_t j = 0; j < kPanelOutputs; ++j) {
      for (uint64_t b = 0; b < 4; ++b) {
        const uint8_t low = in[b * kPanelOutputs + j];
        const uint8_t high = layout() == Layout::kU4 ? in[(4 + b) * kPanelOutputs + j] : 0;
        *out++ = static_cast<uint8_t>(low | high << 4);
      }
    }
  }
}

void PackedMatrix::PackBlockValues(const MatrixSource& source, uint64_t panel,
                                   std::byte* storage) const {
  const uint64_t first = panel * kPanelOutputs;
  const uint64_t outputs = std::min(kPanelOutputs, n() - first);
  const auto shift = static_cast<float>(CodeShift(source.codes.type));
  auto* scale = reinterpret_cast<float*>(storage + scales_offset_) + panel * panel_blocks();
  auto* zero_point =
      !spec_.has_zero_points
          ? nullptr
          : reinterpret_cast<uint8_t*>(storage + zero_points_offset_) + panel * panel_blocks();
  for (uint64_t block = 0; block < blocks(); ++block) {
    for (uint64_t j = 0; j < outputs; ++j) {
      const uint64_t at = block * kPanelOutputs + j;
      scale[at] = source.Scale(first + j, block * block_k());
      if (zero_point != nullptr) {
        zero_point[at] =
            static_cast<uint8_t>(source.ZeroPoint(first + j, block * block_k()) + shift);
      }
    }
  }
}

const float* PackedMatrix::scales(uint64_t panel) const {
  return reinterpret_cast<const float*>(bytes_.data() + scales_offset_) + panel * panel_blocks();
}

const uint8_t* PackedMatrix::zero_points(uint64_t panel) const {
  if (!spec_.has_zero_points) return nullptr;
  return reinterpret_cast<const uint8_t*>(bytes_.data() + zero_points_offset_) +
         panel * panel_blocks();
}

void PackedMatrix::CopyOutput(uint64_t output, float* out) const {
  const uint64_t panel_index = output / kPanelOutputs;
  const uint64_t j = output % kPanelOutputs;
  const std::byte* data = panel(panel_index);
  const auto* floats = reinterpret_cast<const float*>(data);
  const auto* halves = reinterpret_cast<const uint16_t*>(data);
  const auto* codes = reinterpret_cast<const uint8_t*>(data) + j * 4;
  // Of input k among the codes of this output.
  const auto byte_of = [&](uint64_t k) {
    return k / GroupInputs(layout()) * GroupBytes(layout()) + k % 4;
  };
  for (uint64_t k = 0; k < spec_.k; ++k) {
    switch (layout()) {
      case Layout::kF32:
        out[k] = floats[k * kPanelOutputs + j];
        break;
      case Layout::kF16:
        out[k] = HalfToFloat(halves[k * kPanelOutputs + j]);
        break;
      case Layout::kBf16:
        out[k] = Bfloat16ToFloat(halves[k * kPanelOutputs + j]);
        break;
      case Layout::kU8:
        out[k] = codes[byte_of(k)];
        break;
      case Layout::kU4:
        out[k] = static_cast<float>(codes[byte_of(k)] >> (k % 8 < 4 ? 0 : 4) & 0xF);
        break;
    }
  }
  if (!IsQuantized()) return;
  const float* scale = scales(panel_index);
  const uint8_t* zero_point = zero_points(panel_index);
  for (uint64_t k = 0; k < spec_.k; ++k) {
    const uint64_t at = k / block_k() * kPanelOutputs + j;
    out[k] = (out[k] - (zero_point != nullptr ? zero_point[at] : spec_.zero_point)) * scale[at];
  }
}

}  // namespace tandem

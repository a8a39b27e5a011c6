#include "graph/nbits_pattern.h"

#include <memory>

namespace tandem {
namespace {

constexpr int64_t kByteBits = 8;

bool HasElements(const Weight& weight, int64_t elements, int64_t bits) {
  return weight.bytes.size() ==
         CeilDivide(static_cast<uint64_t>(elements * bits), uint64_t{kByteBits});
}

// The constants of a node and what it says of them.
class NBits {
 public:
  NBits(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  std::optional<MatrixUse> MatchMatMul() {
    enum { kA, kB, kScales, kZeroPoints, kGroupIndex, kBias };
    const ValueId x = Input(node_, kA);
    if (!Read(kB, kScales, kZeroPoints) || x == kNoValue || Input(node_, kGroupIndex) != kNoValue) {
      return std::nullopt;
    }
    if (!graph_[x].shape || graph_[x].shape->size() < 2) return std::nullopt;
    // The last block of an output is padded.
    const int64_t k = IntAttribute(node_, "K", 0);
    const int64_t padded = Blocks(k) * block_;
    auto matrix = MatrixOf(IntAttribute(node_, "N", 0), k, padded, Storage::kBytes);
    if (!matrix) return std::nullopt;
    return MatrixUse{std::move(*matrix), false, x, Input(node_, kBias),
                     IntAttribute(node_, "accuracy_level", 0)};
  }

  std::optional<MatrixUse> MatchGather() {
    enum { kData, kIndices, kScales, kZeroPoints };
    const ValueId indices = Input(node_, kIndices);
    if (!Read(kData, kScales, kZeroPoints) || indices == kNoValue || codes_->shape.size() != 2) {
      return std::nullopt;
    }
    const int64_t axis = IntAttribute(node_, "gather_axis", 0);
    const int64_t quantized = IntAttribute(node_, "quantize_axis", 1);
    if ((axis != 0 && axis != -2) || (quantized != 1 && quantized != -1)) return std::nullopt;
    const bool has_bytes = codes_->type == DataType::kUint8;
    const int64_t k = codes_->shape[1] * (has_bytes ? kByteBits / bits_ : 1);
    auto matrix =
        MatrixOf(codes_->shape[0], k, k, has_bytes ? Storage::kBytes : Storage::kElements);
    if (!matrix) return std::nullopt;
    return MatrixUse{std::move(*matrix), true, indices, kNoValue};
  }

 private:
  // How codes and zero points lie in memory: as bytes of one or two, rows ending on a byte and
  // codes in the upper half of the range positive; or as elements of a 4-bit type.
  enum class Storage { kBytes, kElements };

  std::shared_ptr<const Weight> Constant(size_t input) const {
    const ValueId value = Input(node_, input);
    return value == kNoValue ? nullptr : graph_[value].weight;
  }

  // Whether the constants are there and the attributes are some that ONNX Runtime knows.
  bool Read(size_t codes, size_t scales, size_t zero_points) {
    codes_ = Constant(codes);
    scales_ = Constant(scales);
    zero_points_ = Constant(zero_points);
    bits_ = IntAttribute(node_, "bits", 4);
    block_ = IntAttribute(node_, "block_size", 0);
    return codes_ && scales_ && (zero_points_ || Input(node_, zero_points) == kNoValue) &&
           (bits_ == 4 || bits_ == 8) && block_ >= kLeastNBitsBlock && FitsFloat32(scales_->type);
  }

  int64_t Blocks(int64_t k) const {
    return static_cast<int64_t>(
        CeilDivide(static_cast<uint64_t>(k), static_cast<uint64_t>(block_)));
  }

  // The matrix, whose rows are `row_elements` codes; none when the constants have other sizes.
  std::optional<Matrix> MatrixOf(int64_t n, int64_t k, int64_t row_elements,
                                 Storage storage) const {
    if (n <= 0 || k <= 0) return std::nullopt;
    const int64_t blocks = Blocks(k);
    if (!HasElements(*codes_, n * row_elements, bits_) ||
        ElementCount(scales_->shape) != static_cast<uint64_t>(n * blocks)) {
      return std::nullopt;
    }
    const bool has_bytes = storage == Storage::kBytes;
    Matrix matrix;
    matrix.n = n;
    matrix.k = k;
    matrix.outputs_first = true;
    matrix.codes = codes_;
    matrix.code_type = !has_bytes ? codes_->type : bits_ == 4 ? DataType::kUint4 : DataType::kUint8;
    matrix.row_elements = row_elements;
    matrix.scales = scales_;
    matrix.block_n = 1;
    matrix.block_k = block_;
    matrix.default_zero_point = !has_bytes ? 0 : bits_ == 4 ? 8 : 128;
    if (!zero_points_) return matrix;
    matrix.zero_points = zero_points_;
    matrix.zero_point_type = zero_points_->type;
    matrix.zero_point_row_elements = blocks;
    if (has_bytes && zero_points_->type == DataType::kUint8) {
      const int64_t per_byte = kByteBits / bits_;
      matrix.zero_point_type = matrix.code_type;
      matrix.zero_point_row_elements = (blocks + per_byte - 1) / per_byte * per_byte;
    }
    const auto zero_point_bits = static_cast<int64_t>(BitWidth(matrix.zero_point_type));
    if (!HasElements(*zero_points_, n * matrix.zero_point_row_elements, zero_point_bits)) {
      return std::nullopt;
    }
    return matrix;
  }

  const Graph& graph_;
  const Node& node_;
  std::shared_ptr<const Weight> codes_;
  std::shared_ptr<const Weight> scales_;
  std::shared_ptr<const Weight> zero_points_;
  int64_t bits_ = 0;
  int64_t block_ = 0;
};

}  // namespace

std::optional<MatrixUse> MatchNBits(const Graph& graph, const Node& node) {
  if (IsOp(node, "MatMulNBits", kMicrosoftDomain)) return NBits(graph, node).MatchMatMul();
  if (IsOp(node, "GatherBlockQuantized", kMicrosoftDomain)) return NBits(graph, node).MatchGather();
  return std::nullopt;
}

}  // namespace tandem

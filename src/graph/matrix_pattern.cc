#include "graph/matrix_pattern.h"

#include <algorithm>

#include "graph/nbits_pattern.h"
#include "graph/topology.h"

namespace tandem {
namespace {

bool IsCodeType(DataType type) {
  return type == DataType::kInt8 || type == DataType::kUint8 || type == DataType::kInt4 ||
         type == DataType::kUint4;
}

int64_t Blocks(int64_t size, int64_t block) {
  return static_cast<int64_t>(
      CeilDivide(static_cast<uint64_t>(size), static_cast<uint64_t>(block)));
}

}  // namespace

MatrixPatterns::MatrixPatterns(const Graph& graph) : graph_(graph), matrices_(graph.values.size()) {
  for (ValueId value = 0; value < graph.values.size(); ++value) {
    matrices_[value] = FromConstant(graph[value]);
  }
  for (const Node& node : graph.nodes) {
    if (node.outputs.size() != 1 || node.outputs.front() == kNoValue) continue;
    matrices_[node.outputs.front()] = FromNode(node);
  }
}

const MatrixPatterns::Stored* MatrixPatterns::Find(ValueId value) const {
  return value != kNoValue && value < matrices_.size() && matrices_[value] ? &*matrices_[value]
                                                                           : nullptr;
}

std::optional<MatrixPatterns::Stored> MatrixPatterns::FromConstant(const Value& value) const {
  const auto& weight = value.weight;
  if (!weight || weight->shape.size() != 2 || !FitsFloat32(weight->type)) return std::nullopt;
  if (weight->bytes.size() < kInlineWeightBytes) return std::nullopt;
  Stored stored;
  stored.rows = weight->shape[0];
  stored.columns = weight->shape[1];
  stored.matrix.codes = weight;
  stored.matrix.code_type = weight->type;
  stored.matrix.row_elements = stored.columns;
  return stored;
}

std::optional<MatrixPatterns::Stored> MatrixPatterns::FromNode(const Node& node) const {
  if (IsOp(node, "DequantizeLinear") || IsOp(node, "DequantizeLinear", kMicrosoftDomain)) {
    return FromDequantizeLinear(node);
  }
  const Stored* input = Find(Input(node, 0));
  if (input == nullptr) return std::nullopt;
  if (IsOp(node, "Identity")) return *input;
  if (IsOp(node, "Transpose")) {
    const std::vector<int64_t> order = IntsAttribute(node, "perm");
    if (!order.empty() && order != std::vector<int64_t>{1, 0}) return std::nullopt;
    Stored transposed = *input;
    transposed.is_transposed = !transposed.is_transposed;
    return transposed;
  }
  if (IsOp(node, "Cast")) {
    // Exact only from a shorter float to f32.
    const bool widens = graph_[node.outputs.front()].type == DataType::kFloat32 &&
                        FitsFloat32(graph_[node.inputs.front()].type);
    if (widens) return *input;
  }
  return std::nullopt;
}

std::optional<MatrixPatterns::Stored> MatrixPatterns::FromDequantizeLinear(const Node& node) const {
  const auto constant = [&](size_t index) {
    const ValueId value = Input(node, index);
    return value == kNoValue ? nullptr : graph_[value].weight;
  };
  const auto codes = constant(0);
  const auto scales = constant(1);
  const auto zero_points = constant(2);
  if (!codes || !scales || codes->shape.size() != 2 || !IsCodeType(codes->type)) {
    return std::nullopt;
  }
  if (Input(node, 2) != kNoValue && !zero_points) return std::nullopt;
  if (!FitsFloat32(scales->type) || codes->bytes.size() < kInlineWeightBytes) return std::nullopt;

  Stored stored;
  stored.rows = codes->shape[0];
  stored.columns = codes->shape[1];
  const int64_t block_size = IntAttribute(node, "block_size", 0);
  int64_t axis = IntAttribute(node, "axis", 1);
  if (axis < 0) axis += 2;
  if (axis != 0 && axis != 1) return std::nullopt;
  const bool per_tensor = ElementCount(scales->shape) == 1;
  if (block_size > 0) {
    stored.block_rows = axis == 0 ? block_size : 1;
    stored.block_columns = axis == 0 ? 1 : block_size;
  } else {
    stored.block_rows = per_tensor || axis == 1 ? stored.rows : 1;
    stored.block_columns = per_tensor || axis == 0 ? stored.columns : 1;
  }
  const int64_t values_per_row = Blocks(stored.columns, stored.block_columns);
  const auto expected =
      static_cast<uint64_t>(Blocks(stored.rows, stored.block_rows) * values_per_row);
  if (ElementCount(scales->shape) != expected) return std::nullopt;
  if (zero_points &&
      (ElementCount(zero_points->shape) != expected || zero_points->type != codes->type)) {
    return std::nullopt;
  }

  stored.matrix.codes = codes;
  stored.matrix.code_type = codes->type;
  stored.matrix.row_elements = stored.columns;
  stored.matrix.scales = scales;
  stored.matrix.zero_points = zero_points;
  if (zero_points) stored.matrix.zero_point_type = zero_points->type;
  stored.matrix.zero_point_row_elements = values_per_row;
  return stored;
}

// The matrix with its first dimension as inputs (the right operand of a MatMul) or as outputs (an
// embedding table, Gemm with transB).
Matrix MatrixPatterns::Orient(const Stored& stored, bool inputs_first) {
  Matrix matrix = stored.matrix;
  const bool rows_are_inputs = inputs_first != stored.is_transposed;
  matrix.outputs_first = !rows_are_inputs;
  matrix.n = rows_are_inputs ? stored.columns : stored.rows;
  matrix.k = rows_are_inputs ? stored.rows : stored.columns;
  matrix.block_n = rows_are_inputs ? stored.block_columns : stored.block_rows;
  matrix.block_k = rows_are_inputs ? stored.block_rows : stored.block_columns;
  return matrix;
}

std::optional<MatrixUse> MatrixPatterns::Match(const Node& node) const {
  if (IsOp(node, "MatMul")) return MatchMatMul(node);
  if (IsOp(node, "Gemm")) return MatchGemm(node);
  if (IsOp(node, "Gather")) return MatchGather(node);
  return MatchNBits(graph_, node);
}

std::optional<MatrixUse> MatrixPatterns::MatchMatMul(const Node& node) const {
  const Stored* stored = Find(Input(node, 1));
  const ValueId x = Input(node, 0);
  if (stored == nullptr || x == kNoValue) return std::nullopt;
  // A vector times a matrix is a vector: SharedMatMul keeps the rank of x.
  if (!graph_[x].shape || graph_[x].shape->size() < 2) return std::nullopt;
  MatrixUse use{Orient(*stored, /*inputs_first=*/true), false, x, kNoValue};
  const bool has_small_codes = BitWidth(use.matrix.code_type) == 4;
  if (has_small_codes && use.matrix.block_n == 1 && use.matrix.block_k >= kLeastNBitsBlock) {
    use.accuracy_level = MatrixUse::kSessionLevel;
  }
  return use;
}

std::optional<MatrixUse> MatrixPatterns::MatchGemm(const Node& node) const {
  const Stored* stored = Find(Input(node, 1));
  const ValueId x = Input(node, 0);
  if (stored == nullptr || x == kNoValue) return std::nullopt;
  if (IntAttribute(node, "transA", 0) != 0 || FloatAttribute(node, "alpha", 1) != 1 ||
      (Input(node, 2) != kNoValue && FloatAttribute(node, "beta", 1) != 1)) {
    return std::nullopt;
  }
  const bool inputs_first = IntAttribute(node, "transB", 0) == 0;
  return MatrixUse{Orient(*stored, inputs_first), false, x, Input(node, 2)};
}

std::optional<MatrixUse> MatrixPatterns::MatchGather(const Node& node) const {
  const Stored* stored = Find(Input(node, 0));
  const ValueId indices = Input(node, 1);
  if (stored == nullptr || indices == kNoValue) return std::nullopt;
  const int64_t axis = IntAttribute(node, "axis", 0);
  if (axis != 0 && axis != -2) return std::nullopt;
  return MatrixUse{Orient(*stored, /*inputs_first=*/false), true, indices, kNoValue};
}

}  // namespace tandem

#include "graph/wide_integers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

namespace tandem {
namespace {

bool IsWideType(DataType type) {
  return type == DataType::kInt64 || type == DataType::kUint64 || type == DataType::kUint32;
}

// Constants up to here are multiplied with sizes in good faith.
constexpr int64_t kLargestSize = 1 << 16;

// Inputs that say where something is, by operator.
struct PositionInputs {
  std::string_view op_type;
  std::array<int, 4> inputs;  // -1: none
};

constexpr std::array kPositionInputs{
    PositionInputs{"AffineGrid", {1, -1, -1, -1}},
    PositionInputs{"CenterCropPad", {1, -1, -1, -1}},
    PositionInputs{"Col2Im", {1, 2, -1, -1}},
    PositionInputs{"ConstantOfShape", {0, -1, -1, -1}},
    PositionInputs{"CumSum", {1, -1, -1, -1}},
    PositionInputs{"Expand", {1, -1, -1, -1}},
    PositionInputs{"Gather", {1, -1, -1, -1}},
    PositionInputs{"GatherBlockQuantized", {1, -1, -1, -1}},
    PositionInputs{"GatherElements", {1, -1, -1, -1}},
    PositionInputs{"GatherND", {1, -1, -1, -1}},
    PositionInputs{"Loop", {0, -1, -1, -1}},
    PositionInputs{"OneHot", {0, 1, -1, -1}},
    PositionInputs{"Pad", {1, 3, -1, -1}},
    PositionInputs{"ReduceL1", {1, -1, -1, -1}},
    PositionInputs{"ReduceL2", {1, -1, -1, -1}},
    PositionInputs{"ReduceLogSum", {1, -1, -1, -1}},
    PositionInputs{"ReduceLogSumExp", {1, -1, -1, -1}},
    PositionInputs{"ReduceMax", {1, -1, -1, -1}},
    PositionInputs{"ReduceMean", {1, -1, -1, -1}},
    PositionInputs{"ReduceMin", {1, -1, -1, -1}},
    PositionInputs{"ReduceProd", {1, -1, -1, -1}},
    PositionInputs{"ReduceSum", {1, -1, -1, -1}},
    PositionInputs{"ReduceSumSquare", {1, -1, -1, -1}},
    PositionInputs{"Reshape", {1, -1, -1, -1}},
    PositionInputs{"Resize", {3, -1, -1, -1}},
    PositionInputs{"ReverseSequence", {1, -1, -1, -1}},
    PositionInputs{"RotaryEmbedding", {1, 3, -1, -1}},
    PositionInputs{"Scatter", {1, -1, -1, -1}},
    PositionInputs{"ScatterElements", {1, -1, -1, -1}},
    PositionInputs{"ScatterND", {1, -1, -1, -1}},
    PositionInputs{"Slice", {1, 2, 3, 4}},
    PositionInputs{"Split", {1, -1, -1, -1}},
    PositionInputs{"Squeeze", {1, -1, -1, -1}},
    PositionInputs{"Tile", {1, -1, -1, -1}},
    PositionInputs{"TopK", {1, -1, -1, -1}},
    PositionInputs{"Trilu", {1, -1, -1, -1}},
    PositionInputs{"Unsqueeze", {1, -1, -1, -1}},
};

bool IsPositionInput(const Node& node, size_t slot) {
  if (node.op_type == "SharedGather") return true;
  return std::any_of(
      kPositionInputs.begin(), kPositionInputs.end(), [&](const PositionInputs& row) {
        return row.op_type == node.op_type && std::find(row.inputs.begin(), row.inputs.end(),
                                                        static_cast<int>(slot)) != row.inputs.end();
      });
}

using Names = std::set<std::string_view>;

// Results are lengths of dimensions.
const Names kSizeOps{"Shape", "Size"};
// Results are positions in a tensor.
const Names kPositionOps{"ArgMax", "ArgMin", "NonZero", "NonMaxSuppression", "TopK", "Unique"};
// Results are elements of the inputs, unchanged.
const Names kMoveOps{
    "Compress",  "Concat",          "DepthToSpace", "Expand",          "Flatten",
    "Gather",    "GatherElements",  "GatherND",     "Identity",        "Pad",
    "Reshape",   "ReverseSequence", "Scatter",      "ScatterElements", "ScatterND",
    "Slice",     "SpaceToDepth",    "Split",        "Squeeze",         "Tile",
    "Transpose", "Trilu",           "Unsqueeze",    "Where",           "ConstantOfShape",
    "EyeLike",   "OneHot"};
// Results are not larger in magnitude than the inputs.
const Names kBoundedOps{"Abs", "Clip", "Max", "Min", "Sign", "Mod"};
// Likewise, but OpenVINO compares in f32, which holds 24 bits: enough for sizes only.
const Names kBoundedReductions{"ReduceMax", "ReduceMin"};
const Names kCompareOps{"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"};

// Whether the magnitude of all elements is at most `limit`. The largest and smallest 64-bit numbers
// stand for "to the end".
bool IsWithin(const Weight& weight, int64_t limit) {
  const auto fits = [&]<typename T>(T) {
    for (size_t i = 0; i + sizeof(T) <= weight.bytes.size(); i += sizeof(T)) {
      T value;
      std::memcpy(&value, weight.bytes.data() + i, sizeof(T));
      const bool is_end =
          value == std::numeric_limits<T>::max() || value == std::numeric_limits<T>::lowest();
      const bool is_small =
          std::cmp_less_equal(value, limit) && std::cmp_greater_equal(value, -limit);
      if (!is_small && !(is_end && std::is_signed_v<T>)) return false;
    }
    return true;
  };
  switch (weight.type) {
    case DataType::kInt64:
      return fits(int64_t{});
    case DataType::kUint64:
      return fits(uint64_t{});
    default:
      return fits(uint32_t{});
  }
}

}  // namespace

WideIntegers::WideIntegers(const Graph& graph, const GraphIndex& index)
    : graph_(graph),
      levels_(graph.values.size(), Level::kNone),
      only_position_(graph.values.size()),
      unsafe_(graph.nodes.size()) {
  for (ValueId value = 0; value < graph.values.size(); ++value) {
    if (!IsWideType(graph[value].type)) continue;
    const auto& weight = graph[value].weight;
    levels_[value] = !weight                           ? Level::kWide
                     : IsWithin(*weight, kLargestSize) ? Level::kSize
                     : IsWithin(*weight, INT32_MAX)    ? Level::kNarrow
                                                       : Level::kWide;
  }
  for (const Node& node : graph.nodes) {
    for (ValueId value : node.outputs) {
      if (value != kNoValue && IsWideType(graph[value].type)) levels_[value] = ResultLevel(node);
    }
  }
  // Readers first: whether a value is only a position depends on what becomes of it.
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    for (ValueId value : graph.nodes[id].outputs) {
      if (value == kNoValue || levels_[value] == Level::kNone) continue;
      const auto reads_a_position = [&](NodeId reader) {
        const Node& node = graph.nodes[reader];
        for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
          if (node.inputs[slot] != value || IsPositionInput(node, slot)) continue;
          const bool passes_it_on = kMoveOps.contains(node.op_type) && node.outputs.size() == 1 &&
                                    node.outputs.front() != kNoValue &&
                                    only_position_[node.outputs.front()];
          if (!passes_it_on) return false;
        }
        return std::find(node.captures.begin(), node.captures.end(), value) == node.captures.end();
      };
      const auto& readers = index.Consumers(value);
      only_position_[value] = !index.IsGraphOutput(value) && !readers.empty() &&
                              std::all_of(readers.begin(), readers.end(), reads_a_position);
    }
    unsafe_[id] = ComputesUnsafely(graph.nodes[id]);
  }
}

WideIntegers::Level WideIntegers::LevelOf(ValueId value) const {
  return value == kNoValue ? Level::kNone : levels_[value];
}

WideIntegers::Level WideIntegers::ResultLevel(const Node& node) const {
  if (kSizeOps.contains(node.op_type)) return Level::kSize;
  if (kPositionOps.contains(node.op_type)) return Level::kNarrow;
  if (node.op_type == "Cast") {
    const DataType from = graph_[node.inputs.front()].type;
    if (IsWideType(from)) return LevelOf(node.inputs.front());
    if (from == DataType::kBool) return Level::kSize;
    return IsFloat(from) ? Level::kWide : Level::kNarrow;
  }
  Level highest = Level::kNone;
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    if (!IsPositionInput(node, slot)) highest = std::max(highest, LevelOf(node.inputs[slot]));
  }
  if (kMoveOps.contains(node.op_type) || kBoundedOps.contains(node.op_type) ||
      kBoundedReductions.contains(node.op_type)) {
    return highest == Level::kNone ? Level::kSize : highest;
  }
  // The number of a tensor's elements is no longer small.
  if (node.op_type == "ReduceProd") return Level::kWide;
  // Arithmetic: sizes stay sizes, everything else may outgrow 32 bits.
  return highest == Level::kSize ? Level::kSize : Level::kWide;
}

bool WideIntegers::ComputesUnsafely(const Node& node) const {
  bool is_position = !node.outputs.empty();
  bool makes_wide = false;
  for (ValueId value : node.outputs) {
    if (value == kNoValue) continue;
    is_position &= LevelOf(value) != Level::kNone && only_position_[value];
    makes_wide |= LevelOf(value) == Level::kWide;
  }
  const bool moves = kMoveOps.contains(node.op_type) || node.op_type == "Cast";
  if (moves && is_position) return false;
  if (makes_wide) return true;
  const bool tolerates_narrow = moves || kBoundedOps.contains(node.op_type) ||
                                kCompareOps.contains(node.op_type) ||
                                kPositionOps.contains(node.op_type);
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    if (IsPositionInput(node, slot) || kSizeOps.contains(node.op_type)) continue;
    const Level level = LevelOf(node.inputs[slot]);
    if (level == Level::kWide || (level == Level::kNarrow && !tolerates_narrow)) return true;
  }
  return false;
}

}  // namespace tandem

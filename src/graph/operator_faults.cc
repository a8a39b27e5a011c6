#include "graph/operator_faults.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tandem {
namespace {

struct Site {
  const Graph& graph;
  const GraphIndex& index;
  const Node& node;
};

bool Always(const Site& /*site*/) {
  return true;
}

bool Has(const Node& node, size_t input) {
  return Input(node, input) != kNoValue;
}

int64_t OpsetVersion(const Graph& graph) {
  for (const Opset& opset : graph.opsets) {
    if (opset.domain.empty() || opset.domain == "ai.onnx") return opset.version;
  }
  return 0;
}

std::string_view TextAttribute(const Node& node, std::string_view name, std::string_view fallback) {
  const Attribute* attribute = FindAttribute(node, name);
  const auto* text = attribute == nullptr ? nullptr : std::get_if<std::string>(&attribute->value);
  return text == nullptr ? fallback : *text;
}

// A dimension that the model gives; none when it is not known.
std::optional<int64_t> Dimension(const Graph& graph, ValueId value, size_t axis) {
  if (value == kNoValue || !graph[value].shape || graph[value].shape->size() <= axis) {
    return std::nullopt;
  }
  const int64_t size = (*graph[value].shape)[axis];
  return size < 0 ? std::nullopt : std::optional(size);
}

bool HasWindow(const Site& site) {
  return IntAttribute(site.node, "left_window_size", -1) >= 0 ||
         IntAttribute(site.node, "right_window_size", -1) >= 0;
}

bool MasksTwiceWithPast(const Site& site) {
  constexpr size_t kMask = 3, kPastKey = 4;
  return IntAttribute(site.node, "is_causal", 0) != 0 && Has(site.node, kMask) &&
         Has(site.node, kPastKey);
}

// To f16, only to be read as f32 again.
bool RoundsToHalf(const Site& site) {
  const auto& [graph, index, node] = site;
  const ValueId result = node.outputs.front();
  const auto& readers = index.Consumers(result);
  return graph[node.inputs.front()].type == DataType::kFloat32 &&
         graph[result].type == DataType::kFloat16 && !index.IsGraphOutput(result) &&
         !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](NodeId id) {
           const Node& reader = graph.nodes[id];
           return IsOp(reader, "Cast") && graph[reader.outputs.front()].type == DataType::kFloat32;
         });
}

bool HasAxisAttribute(const Site& site) {
  constexpr int64_t kAxisIsInput = 20;
  return OpsetVersion(site.graph) < kAxisIsInput;
}

bool ComputesItsScale(const Site& site) {
  return Has(site.node, 1) && site.index.Producer(site.node.inputs[1]) != GraphIndex::kNoNode;
}

bool IsBatchFirst(const Site& site) {
  return IntAttribute(site.node, "layout", 0) != 0;
}

bool HasPeepholes(const Site& site) {
  constexpr size_t kPeepholes = 7;
  return Has(site.node, kPeepholes);
}

// ONNX leaves out a last window that would begin behind the input.
bool LastWindowMayBeginBehindInput(const Site& site) {
  const Node& node = site.node;
  if (IntAttribute(node, "ceil_mode", 0) == 0) return false;
  const std::vector<int64_t> kernel = IntsAttribute(node, "kernel_shape");
  const auto at = [&](std::string_view name, size_t i, int64_t fallback) {
    const std::vector<int64_t> values = IntsAttribute(node, name);
    return i < values.size() ? values[i] : fallback;
  };
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int64_t window = (kernel[i] - 1) * at("dilations", i, 1) + 1;
    if (at("strides", i, 1) + at("pads", kernel.size() + i, 0) > window) return true;
  }
  return false;
}

bool ReducesNothing(const Site& site) {
  const ValueId axes = Input(site.node, 1);
  const bool has_none =
      axes == kNoValue || (site.graph[axes].weight && ElementCount(*site.graph[axes].shape) == 0);
  return has_none && IntAttribute(site.node, "noop_with_empty_axes", 0) != 0;
}

bool ReducesInt32(const Site& site) {
  return site.graph[site.node.inputs.front()].type == DataType::kInt32;
}

bool IsAntialiased(const Site& site) {
  return IntAttribute(site.node, "antialias", 0) != 0;
}

bool ExcludesOutside(const Site& site) {
  return IntAttribute(site.node, "exclude_outside", 0) != 0;
}

bool KeepsAspectRatio(const Site& site) {
  return TextAttribute(site.node, "keep_aspect_ratio_policy", "stretch") != "stretch";
}

bool IsColumnRowDepth(const Site& site) {
  return TextAttribute(site.node, "mode", "DCR") != "DCR";
}

bool RepeatsManyDimensions(const Site& site) {
  constexpr size_t kFewDimensions = 3;
  const auto& [graph, index, node] = site;
  return Has(node, 1) && !graph[node.inputs[1]].weight &&
         graph[node.inputs[0]].shape->size() > kFewDimensions;
}

bool HasGroupIndex(const Site& site) {
  constexpr size_t kGroupIndex = 4;
  return Has(site.node, kGroupIndex);
}

bool HasSoftcap(const Site& site) {
  return FloatAttribute(site.node, "softcap", 0) != 0;
}

constexpr size_t kPastKey = 3, kPresentKey = 1, kSequence = 2;  // of GroupQueryAttention

bool HasNoPast(const Site& site) {
  return !Has(site.node, kPastKey);
}

// OpenVINO takes a past of fixed length for a buffer that is changed in place.
bool AppendsToFixedPast(const Site& site) {
  const auto& [graph, index, node] = site;
  if (node.outputs.size() <= kPresentKey || node.outputs[kPresentKey] == kNoValue) return false;
  const auto past = Dimension(graph, Input(node, kPastKey), kSequence);
  return past && past != Dimension(graph, node.outputs[kPresentKey], kSequence);
}

// position_ids of one element mean "from this position on".
bool HasStartPosition(const Site& site) {
  const ValueId positions = Input(site.node, 1);
  return positions != kNoValue && site.graph[positions].shape->size() == 1;
}

struct Fault {
  std::string_view op_types;  // separated by spaces
  std::string_view domain;
  bool (*applies)(const Site& site);
  std::string_view reason;
};

constexpr std::string_view kReductions =
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare";

// Of OpenVINO 2026.4. Ranks are known here.
constexpr std::array kFaults{
    Fault{"Attention", "", HasWindow, "Attention in a window, which OpenVINO ignores"},
    Fault{"Attention", "", MasksTwiceWithPast,
          "Attention with a past and two masks, of which OpenVINO places the causal one wrongly"},
    Fault{"BitShift", "", Always,
          "BitShift, which OpenVINO computes with limits instead of wrapping around"},
    Fault{"Cast", "", RoundsToHalf, "a Cast to f16 and back, which OpenVINO leaves out"},
    Fault{"DFT", "", HasAxisAttribute,
          "DFT before opset 20, of which OpenVINO gets the shape wrong"},
    Fault{"DynamicQuantizeLinear", "", Always,
          "DynamicQuantizeLinear, which OpenVINO rounds wrongly halfway between two integers"},
    Fault{"GRU LSTM RNN", "", IsBatchFirst,
          "a recurrent layer with the batch first, which OpenVINO does not see"},
    Fault{"LSTM", "", HasPeepholes, "LSTM with peepholes, which OpenVINO ignores"},
    Fault{"AveragePool LpPool MaxPool", "", LastWindowMayBeginBehindInput,
          "a pool with ceil_mode, of which OpenVINO may compute a window too many"},
    Fault{"QuantizeLinear", "", ComputesItsScale,
          "QuantizeLinear with a computed scale, which OpenVINO rounds wrongly halfway between "
          "two integers"},
    Fault{"ReduceL1 ReduceL2", "", ReducesNothing,
          "a norm over no axes, of which OpenVINO forgets the absolute value"},
    Fault{kReductions, "", ReducesInt32, "a reduction of i32, which OpenVINO computes in f32"},
    Fault{"Resize", "", IsAntialiased, "Resize with antialias, which OpenVINO does in another way"},
    Fault{"Resize", "", ExcludesOutside, "Resize with exclude_outside, which OpenVINO ignores"},
    Fault{"Resize", "", KeepsAspectRatio,
          "Resize with keep_aspect_ratio_policy, which OpenVINO ignores"},
    Fault{"SpaceToDepth", "", IsColumnRowDepth, "SpaceToDepth's mode, which OpenVINO ignores"},
    Fault{"Tile", "", RepeatsManyDimensions,
          "Tile of more than 3 dimensions by computed numbers, which OpenVINO gets wrong"},

    Fault{"GroupQueryAttention", kMicrosoftDomain, HasSoftcap, "GroupQueryAttention with softcap"},
    Fault{"GroupQueryAttention", kMicrosoftDomain, HasNoPast,
          "GroupQueryAttention without past inputs"},
    Fault{"GroupQueryAttention", kMicrosoftDomain, AppendsToFixedPast,
          "GroupQueryAttention that appends to a past of fixed length"},
    Fault{"MatMulNBits", kMicrosoftDomain, HasGroupIndex,
          "MatMulNBits with g_idx, of which OpenVINO dies"},
    Fault{"RotaryEmbedding", kMicrosoftDomain, HasStartPosition,
          "RotaryEmbedding with a start position instead of positions"},
};

bool HasWord(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace

Reason OperatorFault(const Graph& graph, const GraphIndex& index, const Node& node) {
  for (const Fault& fault : kFaults) {
    if (node.domain == fault.domain && HasWord(fault.op_types, node.op_type) &&
        fault.applies({graph, index, node})) {
      return std::string(fault.reason);
    }
  }
  return std::nullopt;
}

}  // namespace tandem

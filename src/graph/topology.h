#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// How a constant appears in the topology.
enum class WeightPlace {
  kInline,    // its bytes are part of the topology
  kExternal,  // a reference to the file that holds it, by absolute path
  kInput,     // an input, to which whoever compiles the topology attaches the constant
};

// Constants smaller than this are written inline: they are shapes, axes and scalars, which
// operators want as constants, and which nobody wins anything by sharing.
constexpr uint64_t kInlineWeightBytes = 1024;

// The name of the input that says which weight each SharedMatMul and SharedGather uses.
constexpr std::string_view kSlotsInput = "tandem.slots";

// The name of the input that has the addresses of the caches of Attention (device/kv_cache.h).
constexpr std::string_view kCachesInput = "tandem.caches";

// A graph as a serialized ONNX ModelProto, without the bytes of its weights. Its inputs are those
// of the graph, then `constants`, then, when the graph has matrices, kSlotsInput: i32 [matrices],
// and when it has caches, kCachesInput: i32 [caches * kAddressElements]; without those that no
// node reads.
struct Topology {
  std::string model;
  std::vector<std::string> inputs;  // their names, in order
  std::vector<ValueId> constants;   // the weights that became inputs
};

// `places` says for each value of the graph how it appears, if it is a constant. A node with a
// matrix gets kSlotsInput as its last input and the attributes `argument` (its position among the
// slots), `n` and `k`; with more than one, `more_n` for those in the slots behind. An Attention
// with the attribute `cache` gets kCachesInput as its last input. Throws Error(kUnsupported) when
// an attribute cannot be written.
Topology WriteTopology(const Graph& graph, const std::vector<WeightPlace>& places);

// kInline for what is small, else kInput.
std::vector<WeightPlace> DefaultPlaces(const Graph& graph);

}  // namespace tandem

#include "graph/fold.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "base/strings.h"
#include "graph/repeats.h"

namespace tandem {
namespace {

std::vector<NodeId> AllNodes(const Graph& graph) {
  std::vector<NodeId> nodes(graph.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

// The values of `graph` that have the names of `values` of `part`.
std::vector<ValueId> ByName(const std::unordered_map<std::string, ValueId>& names,
                            const Graph& part, const std::vector<ValueId>& values) {
  std::vector<ValueId> found;
  for (ValueId value : values) found.push_back(names.at(part[value].name));
  return found;
}

std::unordered_map<std::string, ValueId> Names(const Graph& graph) {
  std::unordered_map<std::string, ValueId> names;
  for (ValueId value = 0; value < graph.values.size(); ++value) names[graph[value].name] = value;
  return names;
}

// The nodes outside all blocks, before and after them. None when a node is both: the blocks then
// cannot run in one go.
struct Surroundings {
  std::vector<NodeId> before;
  std::vector<NodeId> after;
};

std::optional<Surroundings> SplitSurroundings(const Graph& graph, const GraphIndex& index,
                                              const std::vector<std::vector<NodeId>>& blocks) {
  const size_t count = graph.nodes.size();
  std::vector<bool> in_block(count);
  for (const auto& block : blocks) {
    for (NodeId id : block) in_block[id] = true;
  }
  const auto for_each_read = [&](NodeId id, const auto& function) {
    for (const auto* reads : {&graph.nodes[id].inputs, &graph.nodes[id].captures}) {
      for (ValueId value : *reads) {
        if (value == kNoValue) continue;
        const NodeId producer = index.Producer(value);
        if (producer != GraphIndex::kNoNode) function(producer);
      }
    }
  };
  std::vector<bool> follows(count);  // a block, or after one
  for (NodeId id = 0; id < count; ++id) {
    follows[id] = in_block[id];
    for_each_read(id, [&](NodeId producer) {
      if (follows[producer]) follows[id] = true;
    });
  }
  std::vector<bool> precedes(count);  // a block, or before one
  for (NodeId id = static_cast<NodeId>(count); id-- > 0;) {
    if (in_block[id]) precedes[id] = true;
    if (!precedes[id]) continue;
    for_each_read(id, [&](NodeId producer) { precedes[producer] = true; });
  }
  Surroundings around;
  for (NodeId id = 0; id < count; ++id) {
    if (in_block[id]) continue;
    if (precedes[id] && follows[id]) return std::nullopt;
    (precedes[id] ? around.before : around.after).push_back(id);
  }
  return around;
}

// The function of the repeats, and its calls.
class BlockFunction {
 public:
  BlockFunction(const Graph& graph, const GraphIndex& index, const Repeats& repeats)
      : graph_(graph), index_(index), repeats_(repeats) {
    body_.name = graph.name;
    body_.ir_version = graph.ir_version;
    body_.opsets = graph.opsets;
    calls_.resize(repeats.blocks.size());
    const size_t size = repeats.blocks.front().size();
    for (size_t position = 0; position < size; ++position) AddNode(position);
    for (size_t position = 0; position < size; ++position) AddOutputs(position);
  }

  Graph& body() { return body_; }
  std::vector<FunctionCall>& calls() { return calls_; }

 private:
  const Node& NodeAt(size_t block, size_t position) const {
    return graph_.nodes[repeats_.blocks[block][position]];
  }

  void AddNode(size_t position) {
    Node node = NodeAt(0, position);
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      if (node.inputs[slot] != kNoValue) node.inputs[slot] = AddRead(position, slot);
    }
    for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
      if (node.outputs[slot] == kNoValue) continue;
      const ValueId made = node.outputs[slot];
      node.outputs[slot] = body_.AddValue(graph_[made]);
      made_[{position, slot}] = node.outputs[slot];
    }
    if (node.matrix) {
      for (size_t block = 0; block < calls_.size(); ++block) {
        calls_[block].matrices.push_back(graph_.matrices[*NodeAt(block, position).matrix]);
      }
      body_.matrices.push_back(graph_.matrices[*node.matrix]);
      node.matrix = body_.matrices.size() - 1;
    }
    body_.nodes.push_back(std::move(node));
  }

  // The body's value for an input: made in the body, a constant of all blocks, or an argument.
  ValueId AddRead(size_t position, size_t slot) {
    if (const auto inside = repeats_.inside.find({position, slot});
        inside != repeats_.inside.end()) {
      return made_.at(inside->second);
    }
    std::vector<ValueId> arguments;
    for (size_t block = 0; block < calls_.size(); ++block) {
      arguments.push_back(NodeAt(block, position).inputs[slot]);
    }
    const auto [place, is_new] = arguments_.try_emplace(arguments);
    if (!is_new) return place->second;
    Value value = graph_[arguments.front()];
    const bool is_common_constant =
        value.weight && std::all_of(arguments.begin(), arguments.end(), [&](ValueId argument) {
          return SameConstant(*value.weight, *graph_[argument].weight);
        });
    if (!is_common_constant) {
      value.weight = nullptr;
      for (ValueId argument : arguments) MergeShape(value, graph_[argument]);
    }
    place->second = body_.AddValue(std::move(value));
    if (!is_common_constant) {
      body_.inputs.push_back(place->second);
      for (size_t block = 0; block < calls_.size(); ++block) {
        calls_[block].inputs.push_back(arguments[block]);
      }
    }
    return place->second;
  }

  static void MergeShape(Value& into, const Value& from) {
    for (size_t i = 0; i < into.shape->size(); ++i) {
      if ((*into.shape)[i] != (*from.shape)[i]) (*into.shape)[i] = -1;
    }
  }

  // What somebody outside the block reads is an output of the function.
  void AddOutputs(size_t position) {
    for (size_t slot = 0; slot < NodeAt(0, position).outputs.size(); ++slot) {
      std::vector<ValueId> values;
      bool is_read = false;
      for (size_t block = 0; block < calls_.size(); ++block) {
        const ValueId value = NodeAt(block, position).outputs[slot];
        const bool read_outside = value != kNoValue && IsReadOutside(block, value);
        values.push_back(read_outside ? value : kNoValue);
        is_read |= read_outside;
      }
      if (!is_read) continue;
      body_.outputs.push_back(made_.at({position, slot}));
      for (size_t block = 0; block < calls_.size(); ++block) {
        calls_[block].outputs.push_back(values[block]);
      }
    }
  }

  bool IsReadOutside(size_t block, ValueId value) const {
    if (index_.IsGraphOutput(value)) return true;
    const auto& nodes = repeats_.blocks[block];
    const auto& readers = index_.Consumers(value);
    return std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
      return std::find(nodes.begin(), nodes.end(), reader) == nodes.end();
    });
  }

  const Graph& graph_;
  const GraphIndex& index_;
  const Repeats& repeats_;
  Graph body_;
  std::vector<FunctionCall> calls_;
  std::map<std::pair<size_t, size_t>, ValueId> made_;
  std::map<std::vector<ValueId>, ValueId> arguments_;
};

// What the calls pass must be small and of one type, rank and, where it is known, shape.
bool ArgumentsFit(const Graph& graph, const std::vector<FunctionCall>& calls,
                  const FoldLimits& limits) {
  for (size_t i = 0; i < calls.front().inputs.size(); ++i) {
    for (const FunctionCall& call : calls) {
      const Value& value = graph[call.inputs[i]];
      if (value.weight && value.weight->bytes.size() > limits.max_argument_bytes) return false;
    }
  }
  return true;
}

}  // namespace

CallGraph WholeGraph(const Graph& graph) {
  const GraphIndex index(graph);
  const auto names = Names(graph);
  CallGraph whole;
  Graph function = ExtractNodes(graph, index, AllNodes(graph));
  FunctionCall call;
  call.inputs = ByName(names, function, function.inputs);
  call.outputs = ByName(names, function, function.outputs);
  call.matrices = function.matrices;
  whole.functions.push_back(std::move(function));
  whole.calls.push_back(std::move(call));
  return whole;
}

CallGraph FoldRepeats(const Graph& graph, const FoldLimits& limits) {
  const GraphIndex index(graph);
  const std::optional<Repeats> repeats =
      FindRepeats(graph, index, limits.min_repeats, limits.min_nodes);
  if (!repeats) return WholeGraph(graph);
  const auto around = SplitSurroundings(graph, index, repeats->blocks);
  if (!around) return WholeGraph(graph);
  BlockFunction block(graph, index, *repeats);
  if (!ArgumentsFit(graph, block.calls(), limits)) return WholeGraph(graph);

  CallGraph folded;
  const auto names = Names(graph);
  const auto add_part = [&](const std::vector<NodeId>& nodes) {
    if (nodes.empty()) return;
    Graph part = ExtractNodes(graph, index, nodes);
    FunctionCall call;
    call.function = folded.functions.size();
    call.inputs = ByName(names, part, part.inputs);
    call.outputs = ByName(names, part, part.outputs);
    call.matrices = part.matrices;
    folded.functions.push_back(std::move(part));
    folded.calls.push_back(std::move(call));
  };
  add_part(around->before);
  for (FunctionCall& call : block.calls()) {
    call.function = folded.functions.size();
    folded.calls.push_back(std::move(call));
  }
  folded.functions.push_back(std::move(block.body()));
  add_part(around->after);
  return folded;
}

}  // namespace tandem

#include "graph/fold.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "graph/host_nodes.h"
#include "graph/kv_caches.h"
#include "graph/repeats.h"

namespace tandem {
namespace {

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
    for (size_t block = 0; block < calls_.size(); ++block) {
      calls_[block].nodes.push_back(repeats_.blocks[block][position]);
    }
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
    for (size_t i = 0; i < node.matrices.size(); ++i) {
      for (size_t block = 0; block < calls_.size(); ++block) {
        calls_[block].matrices.push_back(graph_.matrices[NodeAt(block, position).matrices[i]]);
      }
      body_.matrices.push_back(graph_.matrices[node.matrices[i]]);
      node.matrices[i] = body_.matrices.size() - 1;
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

  // What nobody reads may have no shape.
  static void MergeShape(Value& into, const Value& from) {
    if (!into.shape || !from.shape) return;
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

// What the calls pass must be small.
bool ArgumentsFit(const Graph& graph, const std::vector<FunctionCall>& calls,
                  const FoldLimits& limits) {
  return std::all_of(calls.begin(), calls.end(), [&](const FunctionCall& call) {
    return std::all_of(call.inputs.begin(), call.inputs.end(), [&](ValueId value) {
      const auto& weight = graph[value].weight;
      return !weight || weight->bytes.size() <= limits.max_argument_bytes;
    });
  });
}

// Puts functions together, in the order of their calls.
class CallGraphBuilder {
 public:
  explicit CallGraphBuilder(const Graph& graph) : graph_(graph), index_(graph) {
    for (ValueId value = 0; value < graph.values.size(); ++value) {
      names_[graph[value].name] = value;
    }
    const HostNodes host(graph, index_, WideIntegers(graph, index_));
    is_on_host_.resize(graph.nodes.size());
    for (NodeId id : host.List()) is_on_host_[id] = true;
    AddPart(host.List());
    calls_.first_is_on_host = !calls_.functions.empty();
  }

  const GraphIndex& index() const { return index_; }

  // The nodes that are not on the host.
  std::vector<NodeId> Rest(const std::vector<NodeId>& nodes) const {
    std::vector<NodeId> rest;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(rest),
                 [this](NodeId id) { return !is_on_host_[id]; });
    return rest;
  }

  // A part of the graph as a function that is called once.
  void AddPart(const std::vector<NodeId>& nodes) {
    if (nodes.empty()) return;
    Graph part = ExtractNodes(graph_, index_, nodes);
    FunctionCall call;
    call.function = calls_.functions.size();
    for (ValueId value : part.inputs) call.inputs.push_back(names_.at(part[value].name));
    for (ValueId value : part.outputs) call.outputs.push_back(names_.at(part[value].name));
    call.matrices = part.matrices;
    call.nodes = nodes;
    calls_.functions.push_back(std::move(part));
    calls_.calls.push_back(std::move(call));
  }

  void AddBlocks(BlockFunction& block) {
    for (FunctionCall& call : block.calls()) {
      call.function = calls_.functions.size();
      calls_.calls.push_back(std::move(call));
    }
    calls_.functions.push_back(std::move(block.body()));
  }

  CallGraph Take() {
    for (size_t function = 0; function < calls_.functions.size(); ++function) {
      std::vector<FunctionCall*> calls;
      for (FunctionCall& call : calls_.calls) {
        if (call.function == function) calls.push_back(&call);
      }
      BindCaches(calls_.functions[function], calls);
    }
    return std::move(calls_);
  }

 private:
  const Graph& graph_;
  GraphIndex index_;
  std::unordered_map<std::string, ValueId> names_;
  std::vector<bool> is_on_host_;
  CallGraph calls_;
};

}  // namespace

CallGraph WholeGraph(const Graph& graph) {
  CallGraphBuilder builder(graph);
  std::vector<NodeId> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), 0);
  builder.AddPart(builder.Rest(all));
  return builder.Take();
}

CallGraph FoldRepeats(const Graph& graph, const FoldLimits& limits) {
  CallGraphBuilder builder(graph);
  const GraphIndex& index = builder.index();
  const auto repeats = FindRepeats(graph, index, limits.min_repeats, limits.min_nodes);
  if (!repeats) return WholeGraph(graph);
  for (const std::vector<NodeId>& block : repeats->blocks) {
    if (builder.Rest(block).size() != block.size()) return WholeGraph(graph);
  }
  const auto around = SplitSurroundings(graph, index, repeats->blocks);
  if (!around) return WholeGraph(graph);
  BlockFunction block(graph, index, *repeats);
  if (!ArgumentsFit(graph, block.calls(), limits)) return WholeGraph(graph);
  builder.AddPart(builder.Rest(around->before));
  builder.AddBlocks(block);
  builder.AddPart(builder.Rest(around->after));
  return builder.Take();
}

}  // namespace tandem

#include "graph/repeats.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>

#include "graph/signature.h"

namespace tandem {
namespace {

constexpr size_t kNowhere = SIZE_MAX;
constexpr std::pair kOutside{kNowhere, kNowhere};

// --- The order in which equal layers come out equal
// -------------------------------------------------

class OrderFromOutputs {
 public:
  OrderFromOutputs(const Graph& graph, const GraphIndex& index)
      : graph_(graph), index_(index), visited_(graph.nodes.size()) {
    std::vector<NodeId> roots;
    for (ValueId value : graph.outputs) {
      if (index.Producer(value) != GraphIndex::kNoNode) roots.push_back(index.Producer(value));
    }
    // The last of a topological order has the most before it: the model's main result.
    std::stable_sort(roots.begin(), roots.end(), std::greater<>());
    for (NodeId root : roots) Visit(root);
  }

  std::vector<NodeId> Take() { return std::move(order_); }

 private:
  // Depth first, a node after all that it reads, without recursion: graphs are deep.
  void Visit(NodeId root) {
    std::vector<std::pair<NodeId, size_t>> stack;
    const auto enter = [&](NodeId id) {
      if (visited_[id]) return;
      visited_[id] = true;
      stack.emplace_back(id, 0);
    };
    enter(root);
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      const Node& node = graph_.nodes[id];
      if (next == node.inputs.size() + node.captures.size()) {
        order_.push_back(id);
        stack.pop_back();
        continue;
      }
      const size_t read = next++;
      const ValueId value =
          read < node.inputs.size() ? node.inputs[read] : node.captures[read - node.inputs.size()];
      if (value == kNoValue) continue;
      const NodeId producer = index_.Producer(value);
      if (producer != GraphIndex::kNoNode) enter(producer);
    }
  }

  const Graph& graph_;
  const GraphIndex& index_;
  std::vector<bool> visited_;
  std::vector<NodeId> order_;
};

// --- The longest run that equals itself shifted
// -----------------------------------------------------

struct Run {
  size_t period = 0;
  size_t start = 0;
  size_t length = 0;  // positions i from start with signature[i] == signature[i + period]

  size_t Blocks() const { return length / period + 1; }
  size_t Covered() const { return period == 0 ? 0 : Blocks() * period; }
};

Run LongestRun(const std::vector<Digest>& signatures, size_t min_repeats, size_t min_period) {
  Run best;
  const size_t size = signatures.size();
  for (size_t period = min_period; period * min_repeats <= size; ++period) {
    Run run{period, 0, 0};
    for (size_t i = 0; i + period < size; ++i) {
      if (signatures[i] != signatures[i + period]) {
        run = {period, i + 1, 0};
        continue;
      }
      ++run.length;
      if (run.Blocks() >= min_repeats && run.Covered() > best.Covered()) best = run;
    }
  }
  // The run that `best` grew from may go on for less than a period.
  while (best.period > 0 && best.start + best.length + best.period < size &&
         signatures[best.start + best.length] ==
             signatures[best.start + best.length + best.period]) {
    ++best.length;
  }
  return best;
}

// --- Where to cut, and whether it really repeats
// ------------------------------------------------------

class Checker {
 public:
  Checker(const Graph& graph, const GraphIndex& index)
      : graph_(graph), index_(index), order_(OrderFromOutputs(graph, index).Take()) {
    signatures_.resize(graph.nodes.size());
    for (NodeId id : order_) {
      // A node with bodies is like no other.
      signatures_[id] = Bodies(graph.nodes[id]).empty() ? NodeSignature(graph, graph.nodes[id])
                                                        : Digest{id, UINT64_MAX};
    }
  }

  std::optional<Repeats> Find(size_t min_repeats, size_t min_nodes) {
    std::vector<Digest> in_order;
    for (NodeId id : order_) in_order.push_back(signatures_[id]);
    const Run run = LongestRun(in_order, min_repeats, min_nodes);
    if (run.period == 0) return std::nullopt;
    // Of the cuts that the fewest values cross, the one that finds the most blocks.
    std::optional<Repeats> best;
    size_t best_crossing = SIZE_MAX;
    for (const auto& [crossing, offset] : OffsetsByCrossingValues(run)) {
      if (crossing > best_crossing) break;
      std::optional<Repeats> found = BlocksFrom(run, offset);
      if (!found || found->blocks.size() < min_repeats) continue;
      best_crossing = crossing;
      if (!best || found->blocks.size() > best->blocks.size()) best = std::move(found);
    }
    return best;
  }

 private:
  struct Place {
    size_t block = kNowhere;
    size_t position = kNowhere;
  };

  std::optional<Repeats> BlocksFrom(const Run& run, size_t offset) const {
    if (run.length < offset) return std::nullopt;
    Repeats repeats;
    const size_t blocks = (run.length - offset) / run.period + 1;
    for (size_t block = 0; block < blocks; ++block) {
      const auto begin =
          order_.begin() + static_cast<std::ptrdiff_t>(run.start + offset + block * run.period);
      repeats.blocks.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(run.period));
    }
    if (repeats.blocks.size() < 2 || !MatchEdges(repeats)) return std::nullopt;
    while (PrependBlock(repeats)) {
    }
    return repeats;
  }

  // (values that cross from one block to the next, offset of the cut within a period), ascending:
  // each value that crosses has to be passed on at every call.
  std::vector<std::pair<size_t, size_t>> OffsetsByCrossingValues(const Run& run) const {
    std::vector<size_t> place(graph_.nodes.size(), kNowhere);
    for (size_t i = 0; i < order_.size(); ++i) place[order_[i]] = i;
    std::vector<std::pair<size_t, size_t>> costs;
    for (size_t offset = 0; offset < run.period; ++offset) {
      const size_t cut = run.start + offset + run.period;
      size_t crossing = 0;
      for (size_t i = cut - run.period; i < cut && i < order_.size(); ++i) {
        for (ValueId value : graph_.nodes[order_[i]].outputs) {
          if (value == kNoValue) continue;
          const auto& readers = index_.Consumers(value);
          crossing += std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
            return place[reader] != kNowhere && place[reader] >= cut;
          });
        }
      }
      costs.emplace_back(crossing, offset);
    }
    std::sort(costs.begin(), costs.end());
    return costs;
  }

  std::vector<Place> Places(const Repeats& repeats) const {
    std::vector<Place> places(graph_.nodes.size());
    for (size_t block = 0; block < repeats.blocks.size(); ++block) {
      for (size_t position = 0; position < repeats.blocks[block].size(); ++position) {
        places[repeats.blocks[block][position]] = {block, position};
      }
    }
    return places;
  }

  size_t OutputSlot(NodeId producer, ValueId value) const {
    const auto& outputs = graph_.nodes[producer].outputs;
    return static_cast<size_t>(std::find(outputs.begin(), outputs.end(), value) - outputs.begin());
  }

  // Fills repeats.inside. False when some input comes from the own block in one block and from
  // elsewhere in another, or when values at one place differ in kind.
  bool MatchEdges(Repeats& repeats) const {
    const std::vector<Place> places = Places(repeats);
    for (size_t position = 0; position < repeats.blocks.front().size(); ++position) {
      const Node& first = graph_.nodes[repeats.blocks.front()[position]];
      for (size_t slot = 0; slot < first.inputs.size(); ++slot) {
        if (first.inputs[slot] == kNoValue) continue;
        auto inside = kOutside;
        for (size_t block = 0; block < repeats.blocks.size(); ++block) {
          const ValueId value = graph_.nodes[repeats.blocks[block][position]].inputs[slot];
          if (!SameKind(graph_[first.inputs[slot]], graph_[value])) return false;
          auto found = kOutside;
          const NodeId producer = index_.Producer(value);
          if (producer != GraphIndex::kNoNode && places[producer].block == block) {
            found = {places[producer].position, OutputSlot(producer, value)};
          }
          if (block == 0) inside = found;
          if (found != inside) return false;
        }
        if (inside != kOutside) {
          repeats.inside[{position, slot}] = inside;
        } else if (!graph_[first.inputs[slot]].shape) {
          return false;  // a function's input needs a rank
        }
      }
    }
    return true;
  }

  static bool SameKind(const Value& a, const Value& b) {
    return a.is_tensor && b.is_tensor && a.type == b.type &&
           (a.weight == nullptr) == (b.weight == nullptr) &&
           a.shape.has_value() == b.shape.has_value() &&
           (!a.shape || a.shape->size() == b.shape->size());
  }

  // Looks for one more block before the first: the makers of what the first block takes over, and
  // from there backwards along the block's own edges.
  bool PrependBlock(Repeats& repeats) const {
    const std::vector<Place> places = Places(repeats);
    const auto& first = repeats.blocks.front();
    const auto& second = repeats.blocks[1];
    std::vector<NodeId> block(first.size(), GraphIndex::kNoNode);
    std::deque<size_t> open;
    const auto assign = [&](size_t position, size_t output, ValueId value) {
      const NodeId node = index_.Producer(value);
      if (node == GraphIndex::kNoNode || places[node].block != kNowhere) return false;
      if (OutputSlot(node, value) != output) return false;
      if (block[position] != GraphIndex::kNoNode) return block[position] == node;
      if (signatures_[node] != signatures_[first[position]]) return false;
      block[position] = node;
      open.push_back(position);
      return true;
    };
    for (size_t position = 0; position < first.size(); ++position) {
      const Node& node = graph_.nodes[second[position]];
      for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
        const ValueId value = node.inputs[slot];
        if (value == kNoValue || index_.Producer(value) == GraphIndex::kNoNode) continue;
        const Place maker = places[index_.Producer(value)];
        if (maker.block != 0) continue;  // not taken over from the block before
        const ValueId taken = graph_.nodes[first[position]].inputs[slot];
        if (!assign(maker.position, OutputSlot(index_.Producer(value), value), taken)) return false;
      }
    }
    while (!open.empty()) {
      const size_t position = open.front();
      open.pop_front();
      const Node& node = graph_.nodes[block[position]];
      for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
        const auto inside = repeats.inside.find({position, slot});
        if (inside == repeats.inside.end()) continue;
        if (!assign(inside->second.first, inside->second.second, node.inputs[slot])) return false;
      }
    }
    if (std::find(block.begin(), block.end(), GraphIndex::kNoNode) != block.end()) return false;
    Repeats longer = repeats;
    longer.blocks.insert(longer.blocks.begin(), block);
    longer.inside.clear();
    if (!MatchEdges(longer) || longer.inside != repeats.inside) return false;
    repeats = std::move(longer);
    return true;
  }

  const Graph& graph_;
  const GraphIndex& index_;
  std::vector<NodeId> order_;
  std::vector<Digest> signatures_;  // by node
};

}  // namespace

bool SameConstant(const Weight& a, const Weight& b) {
  return a.type == b.type && a.shape == b.shape && a.bytes.size() == b.bytes.size() &&
         (a.bytes.data() == b.bytes.data() ||
          std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0);
}

std::optional<Repeats> FindRepeats(const Graph& graph, const GraphIndex& index, size_t min_repeats,
                                   size_t min_nodes) {
  return Checker(graph, index).Find(std::max<size_t>(2, min_repeats), min_nodes);
}

}  // namespace tandem

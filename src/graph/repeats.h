#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// The largest block of nodes that a graph repeats, each repeat reading what earlier ones made.
struct Repeats {
  // blocks[b][i]: the node at position i of block b. Nodes at one position correspond.
  std::vector<std::vector<NodeId>> blocks;
  // (position, input) of every input that the block itself makes -> (position, output).
  std::map<std::pair<size_t, size_t>, std::pair<size_t, size_t>> inside;
};

// How: nodes are put into an order that follows the data from one output backwards, in which equal
// layers come out equal; the longest run of that order that equals itself shifted by some period is
// cut where the fewest values cross; and the correspondence is then checked edge by edge. The first
// block is usually interleaved with what all blocks share, and is found by walking backwards from
// the second.
//
// Nodes correspond when operator, attributes, constants other than floats, and the types and known
// shapes of results are equal. Nodes with bodies (If, Loop, Scan) are never part of a block.
std::optional<Repeats> FindRepeats(const Graph& graph, const GraphIndex& index, size_t min_repeats,
                                   size_t min_nodes);

// True when two constants are interchangeable: type, shape and bytes are equal.
bool SameConstant(const Weight& a, const Weight& b);

}  // namespace tandem

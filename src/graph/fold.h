#pragma once

#include <vector>

#include "graph/graph.h"

namespace tandem {

// One execution of a function: which values of the whole graph it reads and makes.
struct FunctionCall {
  size_t function = 0;
  std::vector<ValueId> inputs;   // one for each input of the function; constants are allowed
  std::vector<ValueId> outputs;  // one for each output; kNoValue where nobody reads it
  std::vector<Matrix> matrices;  // one for each matrix of the function, of the same n and k
  std::vector<NodeId> nodes;     // of the whole graph: one for each node of the function

  // Keys or values of an attention (graph/kv_caches.h). kNoValue: no past; present is not kept.
  struct Cache {
    ValueId past = kNoValue;
    ValueId present = kNoValue;
  };
  std::vector<Cache> caches;  // one for each of the function's
};

// A graph cut into functions that are called one after the other. A function is a graph of its own,
// compiled once however often it is called.
struct CallGraph {
  std::vector<Graph> functions;
  std::vector<FunctionCall> calls;
  bool first_is_on_host = false;  // the first function consists of host nodes (host_nodes.h)
};

// `graph` as one function, called once; and before it one for the host, if it has host nodes.
CallGraph WholeGraph(const Graph& graph);

struct FoldLimits {
  size_t min_repeats = 4;  // blocks
  size_t min_nodes = 4;    // of a block, after lowering: a layer of a transformer has four
  // A block whose calls differ in a constant larger than this is left alone: as an input, such a
  // constant would be slow.
  uint64_t max_argument_bytes = 64 * 1024;
};

// Finds the block of nodes that repeats most (the layers of a transformer) and makes it a function
// that is called once for each repeat; what comes before and after become a function each. Repeats
// have the same operators, attributes, shapes and wiring; they differ in the values that they read
// and in their weights. Returns WholeGraph when nothing repeats within the limits.
CallGraph FoldRepeats(const Graph& graph, const FoldLimits& limits);

}  // namespace tandem

#pragma once

#include <vector>

#include "graph/graph.h"

namespace tandem {

// OpenVINO computes 64-bit and unsigned 32-bit integers in signed 32 bits: exact for what shapes
// are made of, silently wrong beyond. This finds the nodes for which that matters.
//
// Every integer value is one of: a *size* (made from shapes and small constants: arithmetic on it
// stays small), *narrow* (fits 32 bits, but a sum of two may not: positions of results, casts from
// shorter types) or *wide* (anything else, such as an input of the model). A node is unsafe when it
// computes with more than sizes, moves or compares wide values, or makes them; unless the result
// only ever says *where* something is (indices, shapes, axes): a position that does not fit 32 bits
// is beyond the end of any tensor.
class WideIntegers {
 public:
  WideIntegers(const Graph& graph, const GraphIndex& index);

  // True when 32-bit arithmetic could change the result of `node`. Bodies are not looked into.
  bool IsUnsafe(NodeId node) const { return unsafe_[node]; }

 private:
  enum class Level : char { kNone, kSize, kNarrow, kWide };

  Level LevelOf(ValueId value) const;
  Level ResultLevel(const Node& node) const;
  bool ComputesUnsafely(const Node& node) const;

  const Graph& graph_;
  std::vector<Level> levels_;        // by value
  std::vector<bool> only_position_;  // by value: read only as indices, shapes or axes
  std::vector<bool> unsafe_;         // by node
};

}  // namespace tandem

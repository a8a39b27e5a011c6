#pragma once

#include "graph/graph.h"

namespace tandem {

// Rewrites the nodes that read weight matrices into Tandem's own operators, which get the matrix as
// an argument instead of as a tensor:
//
//   SharedMatMul(x f32 [..., k]) -> f32 [..., n]     domain "tandem"
//   SharedGather(indices int [...]) -> f32 [..., k]
//
// Taken are MatMul, Gemm (x not transposed, alpha = beta = 1), com.microsoft MatMulNBits (4 and 8
// bits, no g_idx) and Gather along axis 0, when the weight is a matrix of f32, f16 or bf16, or one
// of i8, u8, i4 or u4 through DequantizeLinear (per tensor, per channel or in blocks, along either
// axis), and reaches the node directly or through Transpose, Identity and widening Casts. Whatever
// only served the weight disappears. Small matrices stay as they are (kInlineWeightBytes).
Graph RelabelWeights(const Graph& graph);

// Which nodes RelabelWeights replaces or makes disappear, so that nobody else has to be able to
// compute them.
class RelabelledNodes {
 public:
  // None, unless `has_shared_ops`.
  RelabelledNodes(const Graph& graph, const GraphIndex& index, bool has_shared_ops);

  bool Contains(NodeId node) const { return relabelled_[node]; }

 private:
  std::vector<bool> relabelled_;
};

}  // namespace tandem

#pragma once

#include "graph/graph.h"

namespace tandem {

// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
constexpr int64_t kInt8AccuracyLevel = 4;

enum class Activations {
  kAuto,  // as ONNX Runtime would: accuracy level 4 quantizes
  kF32,
  kInt8,
};

// Rewrites nodes into Tandem's own operators, of domain "tandem" and in f32, which src/device/ops/
// documents.
//
// SharedMatMul and SharedGather read weight matrices: as an argument of the node, not as a tensor.
// One SharedMatMul computes all that product_pattern.h finds to belong together.
//
// Taken are MatMul, Gemm (x not transposed, alpha = beta = 1) and Gather along axis 0, when the
// weight is a matrix of f32, f16 or bf16, or one of i8, u8, i4 or u4 through DequantizeLinear (per
// tensor, per channel or in blocks, along either axis), and reaches the node directly or through
// Transpose, Identity and widening Casts; and com.microsoft MatMulNBits (4 and 8 bits, no g_idx)
// and GatherBlockQuantized. Whatever only served the weight disappears. Small matrices stay as they
// are (kInlineWeightBytes).
//
// A SharedMatMul over 4- or 8-bit codes gets the attribute int8 = 1 when its activations are to be
// quantized to 8 bits (kernels/matmul_int8.h); `activations` says when. With kAuto the accuracy
// level decides: that of MatMulNBits is its own, that of a MatMul with 4-bit codes in blocks is
// `qdq_accuracy_level` (session.qdq_matmulnbits_accuracy_level), all else has none.
//
// RmsNorm, RotaryEmbedding and Attention stand for what norm_pattern.h, attention_pattern.h and
// group_query_attention.h recognize.
Graph Lower(const Graph& graph, Activations activations = Activations::kAuto,
            int64_t qdq_accuracy_level = kInt8AccuracyLevel);

// Which nodes Lower replaces on account of a weight, or makes disappear, so that nobody else has to
// be able to compute them.
class LoweredNodes {
 public:
  // None, unless `has_shared_ops`.
  LoweredNodes(const Graph& graph, const GraphIndex& index, bool has_shared_ops);

  bool Contains(NodeId node) const { return lowered_[node]; }

 private:
  std::vector<bool> lowered_;
};

}  // namespace tandem

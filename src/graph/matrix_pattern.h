#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// A node that reads a weight matrix, in a form that SharedMatMul or SharedGather can replace.
struct MatrixUse {
  Matrix matrix;
  bool is_gather = false;
  ValueId activation = kNoValue;  // x, or the indices
  ValueId bias = kNoValue;        // added to the product
  // Of MatMulNBits; 4: activations may be quantized to 8 bits. kSessionLevel for what ONNX Runtime
  // would turn into MatMulNBits, of the level that the session sets.
  int64_t accuracy_level = 0;

  static constexpr int64_t kSessionLevel = -1;
};

// Finds, for each value of a graph, whether it is a weight matrix, and for each node whether it
// uses one. lower.h lists what is recognized. Reads the graph while it is constructed and in
// Match; the graph's nodes must stay as they are in between.
class MatrixPatterns {
 public:
  explicit MatrixPatterns(const Graph& graph);

  std::optional<MatrixUse> Match(const Node& node) const;

  // A constant matrix, or what Transpose, DequantizeLinear and the like make of one.
  bool IsMatrix(ValueId value) const { return matrices_[value].has_value(); }

 private:
  // A matrix [rows, columns] in memory, and whether the value is its transpose.
  struct Stored {
    Matrix matrix;  // n, k, outputs_first, block_n and block_k are not set yet
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t block_rows = 1;
    int64_t block_columns = 1;
    bool is_transposed = false;
  };

  const Stored* Find(ValueId value) const;
  std::optional<Stored> FromConstant(const Value& value) const;
  std::optional<Stored> FromNode(const Node& node) const;
  std::optional<Stored> FromDequantizeLinear(const Node& node) const;
  static Matrix Orient(const Stored& stored, bool inputs_first);
  std::optional<MatrixUse> MatchMatMul(const Node& node) const;
  std::optional<MatrixUse> MatchGemm(const Node& node) const;
  std::optional<MatrixUse> MatchGather(const Node& node) const;

  const Graph& graph_;
  std::vector<std::optional<Stored>> matrices_;  // by value
};

}  // namespace tandem

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// Walks over a graph, for those who recognize what a group of nodes computes. Borrows both.
class Walker {
 public:
  Walker(const Graph& graph, const GraphIndex& index) : graph_(graph), index_(index) {}

  const Graph& graph() const { return graph_; }
  const GraphIndex& index() const { return index_; }

  // The node that makes `value`, if it is an `op_type` of ai.onnx.
  const Node* Made(ValueId value, std::string_view op_type) const;

  // The only node that reads `value`, if it is an `op_type` of ai.onnx and nobody else does: the
  // value is no output of the graph either.
  const Node* ReadBy(ValueId value, std::string_view op_type) const;
  bool IsReadOnce(ValueId value) const;

  // Whether `value` is fed to the graph: neither made by a node nor a constant.
  bool IsFed(ValueId value) const;

  // The shape of a float tensor (f32, f16 or bf16) of known rank, not 0; null for all else.
  const Shape* FloatShape(ValueId value) const;
  // The same for one rank.
  const Shape* FloatShape(ValueId value, size_t rank) const;

  // What is left of `value` without Casts between float types.
  ValueId SkipCasts(ValueId value) const;

  // What is left of it without factors that are constant scalars, too; `scale` takes these.
  ValueId SkipScale(ValueId value, float& scale) const;

  // The operand of a binary node that is not `value`.
  static ValueId Other(const Node& node, ValueId value) {
    return node.inputs[node.inputs[0] == value ? 1 : 0];
  }

 private:
  const Graph& graph_;
  const GraphIndex& index_;
};

}  // namespace tandem

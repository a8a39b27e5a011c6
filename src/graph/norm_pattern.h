#pragma once

#include <optional>

#include "graph/walker.h"

namespace tandem {

// Root mean square normalization (kernels/row_ops.h) of x [.., d] with a weight [d].
struct RmsNormUse {
  ValueId x = kNoValue;
  ValueId weight = kNoValue;
  float epsilon = 0;
};

// Recognized are ai.onnx RMSNormalization and SimplifiedLayerNormalization, with one output and
// over the last axis, and what exporters write in plain operators:
//
//   Mul(Mul(x, Reciprocal(Sqrt(Add(ReduceMean(Mul(x, x)), epsilon)))), weight)
//
// where the square may be a Pow, the reciprocal a Div, and Casts between float types are looked
// through.
std::optional<RmsNormUse> MatchRmsNorm(const Walker& walker, const Node& node);

// `graph` with each com.microsoft SkipSimplifiedLayerNormalization as an Add and a
// SimplifiedLayerNormalization.
Graph SplitSkipNorms(const Graph& graph);

}  // namespace tandem

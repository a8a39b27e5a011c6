#pragma once

#include <optional>
#include <set>
#include <string>

#include "graph/walker.h"

namespace tandem {

// An activation function that gates a linear unit (https://arxiv.org/abs/2002.05202).
struct ActivationUse {
  ValueId x = kNoValue;
  std::string name;        // "silu", "gelu" or "gelu_tanh" (kernels/row_ops.h)
  std::set<NodeId> nodes;  // that compute it, the last one too
};

// Finds what `y` is an activation of: an operator Gelu or FastGelu, or products, in any order, of
//
//   x Sigmoid(x)    x (1 + Erf(x / sqrt 2)) / 2    x (1 + Tanh(sqrt(2 / pi) (x + 0.044715 x^3))) /
//   2
//
// where the arguments may be written in any way that is the same polynomial of x.
std::optional<ActivationUse> MatchActivation(const Walker& walker, ValueId y);

}  // namespace tandem

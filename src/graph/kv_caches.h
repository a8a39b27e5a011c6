#pragma once

#include "graph/fold.h"

namespace tandem {

// Takes the caches out of a function and its calls: past and present of its Attention nodes are
// then neither inputs nor outputs of the function, but in FunctionCall::caches, and the nodes say
// by number which caches they use. A past that other nodes read, too, stays an input.
void BindCaches(Graph& function, const std::vector<FunctionCall*>& calls);

}  // namespace tandem

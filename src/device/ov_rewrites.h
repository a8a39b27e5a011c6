#pragma once

#include <openvino/core/model.hpp>

namespace tandem {

// Says in other words, in a model that OpenVINO's front end made, what the CPU plugin (2026.4)
// would compute wrongly:
// - an output that is nothing but an input: it is forgotten;
// - the largest of minus infinities, or the smallest of infinities: the largest finite number
//   comes out, because reductions start there;
// - Cast to bool: NaN and the lowest integer become false.
void RewriteWhatIsComputedWrongly(ov::Model& model);

}  // namespace tandem

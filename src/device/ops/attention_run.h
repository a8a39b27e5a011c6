#pragma once

#include <openvino/core/node.hpp>

#include "device/ops/attention_settings.h"

namespace tandem {

// Computes an Attention (device/ops/attention.h) into `output`, whose shape it sets, and its
// caches. `op` is whom errors name. Throws Error(kInvalidArgument) when shapes or positions do not
// fit together, or not into the caches.
void RunAttention(const ov::Node& op, const AttentionSettings& settings,
                  const AttentionInputs& inputs, ov::Tensor& output);

}  // namespace tandem

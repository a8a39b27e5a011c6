#pragma once

#include <memory>
#include <openvino/core/model.hpp>

#include "device/device.h"

namespace tandem {

// A function all of whose operators are Tandem's own, run one after the other without a compiled
// model around them: the CPU plugin keeps 25 to 60 KiB for each operator, and infers the shapes of
// each anew in every run that has dynamic ones. Null when the model has other operators.
//
// The operators run on `threads` threads of the process's TBB pool, which is the plugin's too.
std::shared_ptr<Function> MakeOpFunction(const std::shared_ptr<const ov::Model>& model,
                                         const FunctionSource& source, int threads);

// Whether it is one of Tandem's.
bool IsOwnOperator(const ov::Node& node);

// Whether MakeOpFunction takes the model.
bool HasOwnOperatorsOnly(const ov::Model& model);

}  // namespace tandem

#pragma once

#include "ep/ort_api.h"

namespace tandem {

// How many threads the session's intra-op pool has, the calling one included; `enough` when it has
// at least so many. ONNX Runtime has no function for it (seen up to 1.30), so they are counted at
// work: the pool gets `enough` tasks that wait for each other. With fewer threads than that the
// call takes kCountingTime, else as long as the threads need to wake up.
int CountThreads(const OrtFunctions& ort, const OrtKernelContext* context, int enough);

}  // namespace tandem

#pragma once

#include <atomic>
#include <memory>

#include "ep/ort_api.h"
#include "run/profile.h"

namespace tandem {

// Set once a profiler of a session has started.
using ProfilingStarted = std::shared_ptr<std::atomic<bool>>;

// The profile that ONNX Runtime keeps of this thread's current kernel; null: none.
Profile* OrtProfile();

#if ORT_API_VERSION >= 25
// Gives what Tandem measures to ONNX Runtime's profile: that of a session, or that of a run. Which
// of them a kernel belongs to is known by its thread, on which ONNX Runtime says that it starts.
class EpProfiler : public OrtEpProfilerImpl {
 public:
  EpProfiler(const OrtFunctions& ort, ProfilingStarted started);

 private:
  static void ORT_API_CALL ReleaseImpl(OrtEpProfilerImpl* self) noexcept;
  static OrtStatus* ORT_API_CALL StartProfilingImpl(OrtEpProfilerImpl* self,
                                                    int64_t offset_ns) noexcept;
  static OrtStatus* ORT_API_CALL StartEventImpl(OrtEpProfilerImpl* self, uint64_t) noexcept;
  static OrtStatus* ORT_API_CALL StopEventImpl(OrtEpProfilerImpl* self, uint64_t,
                                               const OrtProfilingEvent*) noexcept;
  static OrtStatus* ORT_API_CALL EndProfilingImpl(OrtEpProfilerImpl* self,
                                                  OrtProfilingEventsContainer* container) noexcept;

  void AddEvent(OrtProfilingEventsContainer* container, ProfileEvent event) const;

  const OrtFunctions ort_;
  const ProfilingStarted started_;
  int64_t origin_ns_ = 0;  // when ONNX Runtime's profile began, by Tandem's clock
  Profile profile_;
};
#endif

}  // namespace tandem

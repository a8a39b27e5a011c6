#include "ep/ep_profiler.h"

#include <unistd.h>

#include <vector>

namespace tandem {
namespace {

thread_local Profile* current = nullptr;

}  // namespace

Profile* OrtProfile() {
  return current;
}

#if ORT_API_VERSION >= 25
namespace {

OrtProfilingEventCategory Category(ProfileEvent::Kind kind) {
  switch (kind) {
    case ProfileEvent::Kind::kRun:
      return OrtProfilingEventCategory_SESSION;
    case ProfileEvent::Kind::kCall:
      return OrtProfilingEventCategory_API;
    case ProfileEvent::Kind::kOp:
      break;
  }
  return OrtProfilingEventCategory_KERNEL;
}

}  // namespace

EpProfiler::EpProfiler(const OrtFunctions& ort, ProfilingStarted started)
    : OrtEpProfilerImpl{}, ort_(ort), started_(std::move(started)) {
  ort_version_supported = ORT_API_VERSION;
  Release = ReleaseImpl;
  StartProfiling = StartProfilingImpl;
  StartEvent = StartEventImpl;
  StopEvent = StopEventImpl;
  EndProfiling = EndProfilingImpl;
}

void ORT_API_CALL EpProfiler::ReleaseImpl(OrtEpProfilerImpl* self) noexcept {
  delete static_cast<EpProfiler*>(self);
}

OrtStatus* ORT_API_CALL EpProfiler::StartProfilingImpl(OrtEpProfilerImpl* self,
                                                       int64_t offset_ns) noexcept {
  auto& profiler = *static_cast<EpProfiler*>(self);
  profiler.origin_ns_ = NowNs() - offset_ns;
  *profiler.started_ = true;
  return nullptr;
}

OrtStatus* ORT_API_CALL EpProfiler::StartEventImpl(OrtEpProfilerImpl* self, uint64_t) noexcept {
  current = &static_cast<EpProfiler*>(self)->profile_;
  return nullptr;
}

OrtStatus* ORT_API_CALL EpProfiler::StopEventImpl(OrtEpProfilerImpl*, uint64_t,
                                                  const OrtProfilingEvent*) noexcept {
  current = nullptr;
  return nullptr;
}

OrtStatus* ORT_API_CALL EpProfiler::EndProfilingImpl(
    OrtEpProfilerImpl* self, OrtProfilingEventsContainer* container) noexcept {
  auto& profiler = *static_cast<EpProfiler*>(self);
  return Guarded(profiler.ort_.api, [&] {
    profiler.profile_.ForEach(
        [&](ProfileEvent event) { profiler.AddEvent(container, std::move(event)); });
    profiler.profile_.Clear();
  });
}

void EpProfiler::AddEvent(OrtProfilingEventsContainer* container, ProfileEvent event) const {
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (auto& [name, value] : event.args) {
    // ONNX Runtime takes what begins so for JSON, and writes it as it is.
    if (value.starts_with('[') || value.starts_with('{')) value.insert(0, " ");
    names.push_back(name);
    values.push_back(value.c_str());
  }
  const int64_t start_us = (event.time.start_ns - origin_ns_) / 1000;
  OrtProfilingEvent* made = nullptr;
  ThrowIfFailed(ort_.api,
                ort_.ep.CreateProfilingEvent(Category(event.kind), static_cast<int32_t>(getpid()),
                                             static_cast<int32_t>(event.thread), event.name.c_str(),
                                             start_us, event.time.duration_ns / 1000, names.data(),
                                             values.data(), names.size(), &made));
  const std::unique_ptr<OrtProfilingEvent, decltype(ort_.ep.ReleaseProfilingEvent)> release(
      made, ort_.ep.ReleaseProfilingEvent);
  ThrowIfFailed(ort_.api, ort_.ep.ProfilingEventsContainer_AddEvents(container, &made, 1));
}
#endif

}  // namespace tandem

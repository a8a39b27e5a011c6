#pragma once

#include <memory>
#include <string>

#include "ep/ort_api.h"
#include "run/runtime.h"

namespace tandem {

constexpr const char* kEpName = "TandemExecutionProvider";

// What one registration of the library gives ONNX Runtime: the devices, and sessions' providers on
// them. Callbacks may come from any thread.
//
// ONNX Runtime releases a provider through its factory, also when it has released the factory
// before: each provider keeps its factory alive.
class EpFactory : public OrtEpFactory {
 public:
  // The caller gives the factory back with Release.
  static EpFactory* Make(const OrtFunctions& ort);
  void Release() noexcept;

 private:
  explicit EpFactory(const OrtFunctions& ort);

  static const char* ORT_API_CALL GetNameImpl(const OrtEpFactory*) noexcept;
  static const char* ORT_API_CALL GetVendorImpl(const OrtEpFactory*) noexcept;
  static uint32_t ORT_API_CALL GetVendorIdImpl(const OrtEpFactory*) noexcept;
  static const char* ORT_API_CALL GetVersionImpl(const OrtEpFactory*) noexcept;
  static OrtStatus* ORT_API_CALL GetSupportedDevicesImpl(
      OrtEpFactory* self, const OrtHardwareDevice* const* devices, size_t num_devices,
      OrtEpDevice** ep_devices, size_t max_ep_devices, size_t* num_ep_devices) noexcept;
  static OrtStatus* ORT_API_CALL CreateEpImpl(OrtEpFactory* self,
                                              const OrtHardwareDevice* const* devices,
                                              const OrtKeyValuePairs* const* metadata,
                                              size_t num_devices,
                                              const OrtSessionOptions* session_options,
                                              const OrtLogger* logger, OrtEp** ep) noexcept;
  static void ORT_API_CALL ReleaseEpImpl(OrtEpFactory*, OrtEp* ep) noexcept;
  static OrtStatus* ORT_API_CALL ValidateCompiledModelCompatibilityInfoImpl(
      OrtEpFactory*, const OrtHardwareDevice* const*, size_t, const char* info,
      OrtCompiledModelCompatibility* compatibility) noexcept;
  static OrtStatus* ORT_API_CALL CreateAllocatorImpl(OrtEpFactory*, const OrtMemoryInfo*,
                                                     const OrtKeyValuePairs*,
                                                     OrtAllocator** allocator) noexcept;
  static void ORT_API_CALL ReleaseAllocatorImpl(OrtEpFactory*, OrtAllocator*) noexcept;
  static OrtStatus* ORT_API_CALL CreateDataTransferImpl(OrtEpFactory*,
                                                        OrtDataTransferImpl** transfer) noexcept;
  static bool ORT_API_CALL IsStreamAwareImpl(const OrtEpFactory*) noexcept;

  std::vector<OrtEpDevice*> MakeDevices(const OrtHardwareDevice* const* devices, size_t num_devices,
                                        size_t max_ep_devices);
  std::unique_ptr<OrtEp> MakeEp(const OrtKeyValuePairs* const* metadata, size_t num_devices,
                                const OrtSessionOptions* session_options, const OrtLogger* logger);

  OrtFunctions ort_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<EpFactory> self_;  // until Release
};

}  // namespace tandem

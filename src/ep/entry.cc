// The two functions that ONNX Runtime looks for in the library.

#include <cstdlib>
#include <cstring>

#include "ep/ep_factory.h"

#define TANDEM_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// "1.23.2" -> 23.
int MinorVersion(const char* version) {
  const char* dot = std::strchr(version, '.');
  return dot == nullptr ? 0 : static_cast<int>(std::strtol(dot + 1, nullptr, 10));
}

}  // namespace

TANDEM_EXPORT OrtStatus* CreateEpFactories(const char* /*registration_name*/,
                                           const OrtApiBase* base, const OrtLogger* /*logger*/,
                                           OrtEpFactory** factories, size_t max_factories,
                                           size_t* num_factories) {
  *num_factories = 0;
  // The table only grows: the oldest version's is the start of every later one's.
  const OrtApi* api = base->GetApi(tandem::kOldestMinorVersion);
  if (api == nullptr) return nullptr;  // ONNX Runtime has said that it is too old
  return tandem::Guarded(*api, [&] {
    if (max_factories == 0) {
      throw tandem::Error(tandem::ErrorCode::kInvalidArgument, "no room for a factory");
    }
    const tandem::OrtFunctions ort{*api, *api->GetEpApi(), MinorVersion(base->GetVersionString())};
    factories[0] = tandem::EpFactory::Make(ort);
    *num_factories = 1;
  });
}

TANDEM_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  static_cast<tandem::EpFactory*>(factory)->Release();
  return nullptr;
}

#include "ep/ep_factory.h"

#include <algorithm>

#include "base/strings.h"
#include "ep/ep.h"
#include "ep/options.h"
#include "kernels/isa.h"

namespace tandem {
namespace {

constexpr const char* kDeviceMetadata = "ov_device";

// Configuration entries of a session that Tandem reads besides its own.
constexpr const char* kQdqAccuracyLevel = "session.qdq_matmulnbits_accuracy_level";
constexpr const char* kDataFolder = "session.model_external_initializers_file_folder_path";

using Entries = std::map<std::string, std::string>;

Entries ReadEntries(const OrtFunctions& ort, const OrtSessionOptions* session_options) {
  OrtKeyValuePairs* pairs = nullptr;
  ThrowIfFailed(ort.api, ort.api.GetSessionOptionsConfigEntries(session_options, &pairs));
  const std::unique_ptr<OrtKeyValuePairs, decltype(ort.api.ReleaseKeyValuePairs)> release(
      pairs, ort.api.ReleaseKeyValuePairs);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  ort.api.GetKeyValuePairs(pairs, &keys, &values, &count);
  Entries entries;
  for (size_t i = 0; i < count; ++i) entries[keys[i]] = values[i];
  return entries;
}

std::string Find(const Entries& entries, const std::string& key) {
  const auto entry = entries.find(key);
  return entry == entries.end() ? "" : entry->second;
}

// The entries that are options of the provider: "ep.<name in lower case>.<option>".
Entries ProviderEntries(const Entries& entries) {
  const std::string prefix = Concat("ep.", LowerCase(kEpName), ".");
  Entries own;
  for (const auto& [key, value] : entries) {
    if (key.starts_with(prefix)) own[key.substr(prefix.size())] = value;
  }
  return own;
}

// Which of the session's devices: the one that the option names, else the first.
std::string ChooseDevice(const std::vector<std::string>& devices, const std::string& wanted) {
  if (devices.empty()) throw Error(ErrorCode::kInvalidArgument, "the session names no device");
  if (wanted.empty()) return devices.front();
  if (std::find(devices.begin(), devices.end(), wanted) != devices.end()) return wanted;
  throw Error(ErrorCode::kInvalidArgument,
              Concat("option 'device': found '", wanted,
                     "', expected one of the session's devices: ", Join(devices, ", ")));
}

// As ONNX Runtime's optimizer reads it.
int64_t QdqAccuracyLevel(const Entries& entries) {
  const std::string level = Find(entries, kQdqAccuracyLevel);
  if (level.empty()) return kInt8AccuracyLevel;
  if (level.size() != 1 || level[0] < '0' || level[0] > '4') {
    throw Error(ErrorCode::kInvalidArgument, Concat("configuration entry ", kQdqAccuracyLevel,
                                                    ": found '", level, "', expected 0 to 4"));
  }
  return level[0] - '0';
}

}  // namespace

EpFactory* EpFactory::Make(const OrtFunctions& ort) {
  const std::shared_ptr<EpFactory> factory(new EpFactory(ort));
  factory->self_ = factory;
  return factory.get();
}

void EpFactory::Release() noexcept {
  const std::shared_ptr<EpFactory> self = std::move(self_);  // perhaps the last
}

EpFactory::EpFactory(const OrtFunctions& ort)
    : OrtEpFactory{}, ort_(ort), runtime_(Runtime::Get()) {
  ort_version_supported = ORT_API_VERSION;
  GetName = GetNameImpl;
  GetVendor = GetVendorImpl;
  GetVendorId = GetVendorIdImpl;
  GetVersion = GetVersionImpl;
  GetSupportedDevices = GetSupportedDevicesImpl;
  CreateEp = CreateEpImpl;
  ReleaseEp = ReleaseEpImpl;
  ValidateCompiledModelCompatibilityInfo = ValidateCompiledModelCompatibilityInfoImpl;
  CreateAllocator = CreateAllocatorImpl;
  ReleaseAllocator = ReleaseAllocatorImpl;
  CreateDataTransfer = CreateDataTransferImpl;
  IsStreamAware = IsStreamAwareImpl;
}

const char* ORT_API_CALL EpFactory::GetNameImpl(const OrtEpFactory*) noexcept {
  return kEpName;
}

const char* ORT_API_CALL EpFactory::GetVendorImpl(const OrtEpFactory*) noexcept {
  return "Tandem";
}

// Not a PCI vendor.
uint32_t ORT_API_CALL EpFactory::GetVendorIdImpl(const OrtEpFactory*) noexcept {
  return 0;
}

const char* ORT_API_CALL EpFactory::GetVersionImpl(const OrtEpFactory*) noexcept {
  return TANDEM_VERSION;
}

OrtStatus* ORT_API_CALL EpFactory::GetSupportedDevicesImpl(
    OrtEpFactory* self, const OrtHardwareDevice* const* devices, size_t num_devices,
    OrtEpDevice** ep_devices, size_t max_ep_devices, size_t* num_ep_devices) noexcept {
  auto& factory = *static_cast<EpFactory*>(self);
  return Guarded(factory.ort_.api, [&] {
    const auto made = factory.MakeDevices(devices, num_devices, max_ep_devices);
    std::copy(made.begin(), made.end(), ep_devices);
    *num_ep_devices = made.size();
  });
}

OrtStatus* ORT_API_CALL EpFactory::CreateEpImpl(OrtEpFactory* self, const OrtHardwareDevice* const*,
                                                const OrtKeyValuePairs* const* metadata,
                                                size_t num_devices,
                                                const OrtSessionOptions* session_options,
                                                const OrtLogger* logger, OrtEp** ep) noexcept {
  auto& factory = *static_cast<EpFactory*>(self);
  return Guarded(factory.ort_.api, [&] {
    *ep = factory.MakeEp(metadata, num_devices, session_options, logger).release();
  });
}

void ORT_API_CALL EpFactory::ReleaseEpImpl(OrtEpFactory*, OrtEp* ep) noexcept {
  delete static_cast<Ep*>(ep);  // and the factory with the last one, when it is released
}

OrtStatus* ORT_API_CALL EpFactory::ValidateCompiledModelCompatibilityInfoImpl(
    OrtEpFactory*, const OrtHardwareDevice* const*, size_t, const char* info,
    OrtCompiledModelCompatibility* compatibility) noexcept {
  *compatibility = CheckCompatibility(info == nullptr ? "" : info);
  return nullptr;
}

// Tensors are in host memory, which ONNX Runtime allocates and copies itself.
OrtStatus* ORT_API_CALL EpFactory::CreateAllocatorImpl(OrtEpFactory*, const OrtMemoryInfo*,
                                                       const OrtKeyValuePairs*,
                                                       OrtAllocator** allocator) noexcept {
  *allocator = nullptr;
  return nullptr;
}

void ORT_API_CALL EpFactory::ReleaseAllocatorImpl(OrtEpFactory*, OrtAllocator*) noexcept {}

OrtStatus* ORT_API_CALL EpFactory::CreateDataTransferImpl(OrtEpFactory*,
                                                          OrtDataTransferImpl** transfer) noexcept {
  *transfer = nullptr;
  return nullptr;
}

bool ORT_API_CALL EpFactory::IsStreamAwareImpl(const OrtEpFactory*) noexcept {
  return false;
}

std::vector<OrtEpDevice*> EpFactory::MakeDevices(const OrtHardwareDevice* const* devices,
                                                 size_t num_devices, size_t max_ep_devices) {
  std::vector<std::string> openvino_devices;  // listed when the first accelerator asks: it is slow
  const auto openvino_has = [&](const std::string& kind, size_t number) -> std::string {
    if (openvino_devices.empty()) openvino_devices = runtime_->openvino().AvailableDevices();
    for (const std::string& name : openvino_devices) {
      if (name.substr(0, name.find('.')) == kind && number-- == 0) return name;
    }
    return "";
  };
  std::vector<OrtEpDevice*> made;
  size_t gpus = 0;
  size_t npus = 0;
  for (size_t i = 0; i < num_devices && made.size() < max_ep_devices; ++i) {
    std::string name;
    switch (ort_.api.HardwareDevice_Type(devices[i])) {
      case OrtHardwareDeviceType_CPU:
        name = "CPU";  // of any vendor
        break;
      case OrtHardwareDeviceType_GPU:
        name = openvino_has("GPU", gpus++);
        break;
      case OrtHardwareDeviceType_NPU:
        name = openvino_has("NPU", npus++);
        break;
    }
    if (name.empty()) continue;
    OrtKeyValuePairs* metadata = nullptr;
    ort_.api.CreateKeyValuePairs(&metadata);
    const std::unique_ptr<OrtKeyValuePairs, decltype(ort_.api.ReleaseKeyValuePairs)> release(
        metadata, ort_.api.ReleaseKeyValuePairs);
    ort_.api.AddKeyValuePair(metadata, kDeviceMetadata, name.c_str());
    OrtEpDevice* device = nullptr;
    ThrowIfFailed(ort_.api, ort_.ep.CreateEpDevice(this, devices[i], metadata, nullptr, &device));
    made.push_back(device);
  }
  return made;
}

std::unique_ptr<OrtEp> EpFactory::MakeEp(const OrtKeyValuePairs* const* metadata,
                                         size_t num_devices,
                                         const OrtSessionOptions* session_options,
                                         const OrtLogger* logger) {
  const Entries entries = ReadEntries(ort_, session_options);
  EpSettings settings;
  settings.options = ParseOptions(ProviderEntries(entries));
  settings.context = ParseContextSettings(entries);
  settings.context.bundle_file = settings.options.bundle_file;
  settings.data_folder = Find(entries, kDataFolder);
  settings.qdq_accuracy_level = QdqAccuracyLevel(entries);
  std::vector<std::string> devices;
  for (size_t i = 0; i < num_devices; ++i) {
    const char* device = ort_.api.GetKeyValue(metadata[i], kDeviceMetadata);
    if (device != nullptr) devices.emplace_back(device);
  }
  settings.device = ChooseDevice(devices, settings.options.device);
  ActiveIsa();  // a bad TANDEM_ISA is an error here, not in the first run
  return std::make_unique<Ep>(ort_, runtime_, std::move(settings), logger, self_);
}

}  // namespace tandem

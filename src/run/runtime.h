#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/weak_cache.h"
#include "bundle/bundle.h"
#include "device/device.h"
#include "device/ov_device.h"
#include "device/weights_bank.h"
#include "run/profile.h"
#include "run/session_log.h"
#include "run/share_groups.h"
#include "weights/weight_store.h"

namespace tandem {

// What all sessions of the process share: weights, compiled functions, OpenVINO. It lives as long
// as a factory or a session holds it; two ONNX Runtime environments in one process share one. Safe
// from any thread.
class Runtime {
 public:
  // The one of the process, made when nobody holds it yet.
  static std::shared_ptr<Runtime> Get();

  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  WeightStore& store() { return store_; }
  WeightsBank& bank() { return bank_; }
  WeakCache<Digest, Function>& functions() { return functions_; }
  SessionLog& sessions() { return sessions_; }
  ShareGroups& groups() { return groups_; }
  OpenVino& openvino() { return openvino_; }

  // The bundle in the file that `path` leads to now; one for all who ask while it is alive. Throws
  // as MappedFile::Open and Bundle::Open.
  std::shared_ptr<const Bundle> OpenBundle(const std::filesystem::path& path);

  // The profile in the file, one for all who ask while it is alive. Throws as ProfileFile.
  std::shared_ptr<ProfileFile> OpenProfile(const std::filesystem::path& path);

 private:
  Runtime() = default;

  OpenVino openvino_;
  WeightStore store_;
  WeightsBank bank_;
  WeakCache<Digest, Function> functions_;
  WeakCache<Digest, const Bundle> bundles_;
  WeakCache<std::string, ProfileFile> profiles_;
  SessionLog sessions_;
  ShareGroups groups_;
};

}  // namespace tandem

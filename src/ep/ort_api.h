#pragma once

#include <onnxruntime_c_api.h>

#include <memory>
#include <string>

#include "base/error.h"

namespace tandem {

// ONNX Runtime's functions, as the environment that loaded the library handed them over. Two
// environments in one process can be two versions: the functions belong to a factory and what it
// made, and are never global.
struct OrtFunctions {
  const OrtApi& api;
  const OrtEpApi& ep;
  int minor_version;  // 23 for 1.23.2: what the running core is, not what the headers were
};

// The oldest version whose functions Tandem uses without asking. Later ones are behind a comparison
// with minor_version.
constexpr int kOldestMinorVersion = 23;

// What newer versions offer. A function exists when both the headers that Tandem was built with and
// the running core have it. Before 1.24 an unknown rank looks like rank 0.
#if ORT_API_VERSION >= 24
inline bool KnowsUnknownRank(const OrtFunctions& ort) {
  return ort.minor_version >= 24;
}
#else
inline bool KnowsUnknownRank(const OrtFunctions&) {
  return false;
}
#endif

// Bodies of If, Loop and Scan have their node as parent when they are offered.
inline bool TellsParentNode(const OrtFunctions& ort) {
  return ort.minor_version >= 24;
}

// A fused node has inputs for what the bodies in it read of the graph around them.
inline bool PassesCaptures(const OrtFunctions& ort) {
  return ort.minor_version >= 27;
}

#if ORT_API_VERSION >= 27
inline bool TellsEndOfInitialization(const OrtFunctions& ort) {
  return ort.minor_version >= 27;
}
#else
inline bool TellsEndOfInitialization(const OrtFunctions&) {
  return false;
}
#endif

// Throws what a status says, if it says anything, and releases it.
void ThrowIfFailed(const OrtApi& api, OrtStatus* status);

// An error of ONNX Runtime itself, with its own code.
class OrtError : public std::runtime_error {
 public:
  OrtError(OrtErrorCode code, const std::string& message)
      : std::runtime_error(message), code_(code) {}

  OrtErrorCode code() const { return code_; }

 private:
  OrtErrorCode code_;
};

OrtErrorCode OrtCode(ErrorCode code);

// Runs `body` and turns what it throws into a status: no exception crosses the ABI.
template <typename Body>
OrtStatus* Guarded(const OrtApi& api, Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Error& error) {
    return api.CreateStatus(OrtCode(error.code()), error.what());
  } catch (const OrtError& error) {
    return api.CreateStatus(error.code(), error.what());
  } catch (const std::exception& error) {
    return api.CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api.CreateStatus(ORT_FAIL, "Tandem: an exception of unknown type");
  }
}

}  // namespace tandem

#include "ep/ort_api.h"

namespace tandem {

void ThrowIfFailed(const OrtApi& api, OrtStatus* status) {
  if (status == nullptr) return;
  const OrtError error(api.GetErrorCode(status), api.GetErrorMessage(status));
  api.ReleaseStatus(status);
  throw error;
}

OrtErrorCode OrtCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return ORT_INVALID_ARGUMENT;
    case ErrorCode::kNotFound:
      return ORT_NO_SUCHFILE;
    case ErrorCode::kInvalidModel:
      return ORT_INVALID_GRAPH;
    case ErrorCode::kUnsupported:
      return ORT_NOT_IMPLEMENTED;
    case ErrorCode::kDevice:
      return ORT_EP_FAIL;
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return ORT_FAIL;
}

}  // namespace tandem

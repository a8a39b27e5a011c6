#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ep/ort_api.h"
#include "run/request_pool.h"

namespace tandem {

// Runs one partition for ONNX Runtime. Compute may be called from several threads at once.
class NodeCompute : public OrtNodeComputeInfo {
 public:
  // `inputs` and `outputs` are the names of the fused node's, in order. Throws Error(kUnsupported)
  // when the program reads or makes something that is not among them. At most `limit` runs are
  // computed at a time.
  NodeCompute(const OrtFunctions& ort, const std::shared_ptr<const Program>& program,
              const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
              size_t limit);

 private:
  static OrtStatus* ORT_API_CALL CreateStateImpl(OrtNodeComputeInfo* self, OrtNodeComputeContext*,
                                                 void** state) noexcept;
  static OrtStatus* ORT_API_CALL ComputeImpl(OrtNodeComputeInfo* self, void* state,
                                             OrtKernelContext* context) noexcept;
  static void ORT_API_CALL ReleaseStateImpl(OrtNodeComputeInfo*, void*) noexcept;

  OrtFunctions ort_;
  std::vector<size_t> inputs_;   // by input of the program: its place among the fused node's
  std::vector<size_t> outputs_;  // likewise
  RequestPool pool_;
};

}  // namespace tandem

#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ep/ort_api.h"
#include "run/profile.h"
#include "run/request_pool.h"

namespace tandem {

// Runs one partition for ONNX Runtime. Compute may be called from several threads at once.
class NodeCompute : public OrtNodeComputeInfo {
 public:
  // The program for this number of threads.
  using Rethread =
      std::function<std::shared_ptr<const Program>(const Program& program, int threads)>;

  // `inputs` and `outputs` are the names of the fused node's, in order. Throws Error(kUnsupported)
  // when the program reads or makes something that is not among them. At most `limit` runs are
  // computed at a time. If `rethread` is set, the first run finds out how many threads the session
  // has, and when that is fewer than the program uses, goes on with what `rethread` returns. If
  // `profile` is set, runs are measured for it, as of `label`.
  NodeCompute(const OrtFunctions& ort, std::shared_ptr<const Program> program,
              const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
              size_t limit, Rethread rethread, std::shared_ptr<ProfileFile> profile,
              std::string label);

 private:
  static OrtStatus* ORT_API_CALL CreateStateImpl(OrtNodeComputeInfo* self, OrtNodeComputeContext*,
                                                 void** state) noexcept;
  static OrtStatus* ORT_API_CALL ComputeImpl(OrtNodeComputeInfo* self, void* state,
                                             OrtKernelContext* context) noexcept;
  static void ORT_API_CALL ReleaseStateImpl(OrtNodeComputeInfo*, void*) noexcept;

  void Prepare(const OrtKernelContext* context);
  void RunProfiled(RunTensors& tensors, Profile* ort_profile);

  OrtFunctions ort_;
  std::vector<size_t> inputs_;   // by input of the program: its place among the fused node's
  std::vector<size_t> outputs_;  // likewise
  std::shared_ptr<const Program> program_;
  size_t limit_;
  Rethread rethread_;
  std::shared_ptr<ProfileFile> profile_;  // null: none
  std::string label_;
  std::once_flag prepared_;
  std::unique_ptr<RequestPool> pool_;  // from the first run on
};

}  // namespace tandem

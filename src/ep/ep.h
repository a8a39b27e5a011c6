#pragma once

#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "ep/ep_context.h"
#include "ep/ep_profiler.h"
#include "ep/options.h"
#include "ep/ort_api.h"
#include "ep/ort_graph.h"
#include "graph/capability.h"
#include "run/program_builder.h"
#include "run/runtime.h"

namespace tandem {

// What a session asks of its provider.
struct EpSettings {
  Options options;
  std::string device;
  int64_t qdq_accuracy_level = kInt8AccuracyLevel;  // of the session
  std::filesystem::path data_folder;                // of external data; empty: the model's own
  ContextSettings context;
};

// The provider of one session. Holds all that it needs itself, and its factory for ONNX Runtime.
//
// A partition is compiled when ONNX Runtime asks what the provider takes, so that a node that is
// claimed also runs; Compile then only picks the programs up.
class Ep : public OrtEp {
 public:
  // Throws Error(kInvalidArgument) when the device does not accept its properties, and what
  // opening the profile throws.
  Ep(const OrtFunctions& ort, std::shared_ptr<Runtime> runtime, EpSettings settings,
     const OrtLogger* logger, std::shared_ptr<const void> factory);
  ~Ep();

  Ep(const Ep&) = delete;
  Ep& operator=(const Ep&) = delete;

 private:
  static const char* ORT_API_CALL GetNameImpl(const OrtEp*) noexcept;
  static OrtStatus* ORT_API_CALL GetCapabilityImpl(OrtEp* self, const OrtGraph* graph,
                                                   OrtEpGraphSupportInfo* support) noexcept;
  static OrtStatus* ORT_API_CALL CompileImpl(OrtEp* self, const OrtGraph** graphs,
                                             const OrtNode** fused_nodes, size_t count,
                                             OrtNodeComputeInfo** compute_infos,
                                             OrtNode** ep_context_nodes) noexcept;
  static void ORT_API_CALL ReleaseNodeComputeInfosImpl(OrtEp*, OrtNodeComputeInfo** compute_infos,
                                                       size_t count) noexcept;
  static OrtStatus* ORT_API_CALL IsConcurrentRunSupportedImpl(OrtEp*, bool* supported) noexcept;
  static OrtStatus* ORT_API_CALL OnSessionInitializationEndImpl(OrtEp* self) noexcept;
#if ORT_API_VERSION >= 25
  static OrtStatus* ORT_API_CALL CreateProfilerImpl(OrtEp* self,
                                                    OrtEpProfilerImpl** profiler) noexcept;
#endif

  static const char* ORT_API_CALL GetCompiledModelCompatibilityInfoImpl(OrtEp* self,
                                                                        const OrtGraph*) noexcept;

  void GetCapability(const OrtGraph* ort_graph, OrtEpGraphSupportInfo* support);
  void PlanModel(const OrtGraph* ort_graph, const std::vector<const OrtNode*>& nodes,
                 OrtEpGraphSupportInfo* support);
  void PlanCompiledModel(const std::vector<const OrtNode*>& nodes,
                         const std::vector<const OrtNode*>& contexts,
                         OrtEpGraphSupportInfo* support);
  BundlePlaces PlacesOfBundle() const;
  bool IsOwn(const OrtNode* node) const;
  std::vector<Reason> WhyDeclined(const Graph& graph) const;
  void Claim(const std::vector<const OrtNode*>& nodes, OrtEpGraphSupportInfo* support);
  void Compile(const OrtGraph* const* graphs, const OrtNode* const* fused_nodes, size_t count,
               OrtNodeComputeInfo** compute_infos, OrtNode** context_nodes);
  std::shared_ptr<const Program> ProgramFor(const OrtGraph* ort_graph);
  void OpenProfile();
  void MeasureOps();
  void Report();
  void ReleaseMemory();
  void Log(OrtLoggingLevel level, const std::string& message) const noexcept;

  std::shared_ptr<const void> factory_;
  OrtFunctions ort_;
  std::shared_ptr<Runtime> runtime_;
  EpSettings settings_;
  const OrtLogger* logger_;
  std::shared_ptr<Device> device_;
  BuildOptions build_options_;

  // Between GetCapability and Compile: what was compiled for which nodes, or what stands in the way
  // of compiling anything.
  std::map<NodeIds, std::shared_ptr<const Program>> prepared_;
  std::exception_ptr failure_;
  std::filesystem::path model_file_;  // empty for a model from memory
  std::string compatibility_info_;

  std::shared_ptr<ProfileFile> profile_;  // null: none
  ProfilingStarted ort_profiles_ = std::make_shared<std::atomic<bool>>(false);

  SessionRecord record_;
  SessionLog::Id log_entry_;
};

}  // namespace tandem

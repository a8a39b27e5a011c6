#include "ep/ep.h"

#include <algorithm>
#include <utility>

#include "base/memory.h"
#include "base/strings.h"
#include "ep/ep_factory.h"
#include "ep/node_compute.h"
#include "run/plan.h"

namespace tandem {
namespace {

BuildOptions BuildOptionsFor(const EpSettings& settings) {
  BuildOptions build;
  build.has_shared_ops = settings.options.share_weights && settings.device == "CPU";
  build.folds = settings.options.fold != Options::Fold::kOff;
  if (settings.options.fold == Options::Fold::kOn) {
    build.fold_limits.min_repeats = 2;
    build.fold_limits.min_nodes = 2;
  }
  build.properties = PropertiesFor(settings.options, settings.device);
  build.activations = settings.options.activation_precision;
  build.qdq_accuracy_level = settings.qdq_accuracy_level;
  build.is_self_contained = settings.context.enabled;
  return build;
}

}  // namespace

Ep::Ep(const OrtFunctions& ort, std::shared_ptr<Runtime> runtime, EpSettings settings,
       const OrtLogger* logger, std::shared_ptr<const void> factory)
    : OrtEp{},
      factory_(std::move(factory)),
      ort_(ort),
      runtime_(std::move(runtime)),
      settings_(std::move(settings)),
      logger_(logger),
      device_(runtime_->openvino().GetDevice(settings_.device)),
      build_options_(BuildOptionsFor(settings_)),
      log_entry_(runtime_->sessions().NewId()) {
  device_->CheckProperties(build_options_.properties);
  ort_version_supported = ORT_API_VERSION;
  GetName = GetNameImpl;
  OrtEp::GetCapability = GetCapabilityImpl;
  OrtEp::Compile = CompileImpl;
  ReleaseNodeComputeInfos = ReleaseNodeComputeInfosImpl;
  GetCompiledModelCompatibilityInfo = GetCompiledModelCompatibilityInfoImpl;
  compatibility_info_ = CompatibilityInfo(settings_.device);
#if ORT_API_VERSION >= 24
  IsConcurrentRunSupported = IsConcurrentRunSupportedImpl;
#endif
#if ORT_API_VERSION >= 25
  CreateProfiler = CreateProfilerImpl;
#endif
#if ORT_API_VERSION >= 27
  OnSessionInitializationEnd = OnSessionInitializationEndImpl;
#endif
  record_.device = settings_.device;
  record_.options = settings_.options.given;
  record_.report_file = settings_.options.report_file;
  if (!settings_.options.profile_file.empty()) OpenProfile();
}

Ep::~Ep() {
  runtime_->sessions().Remove(log_entry_);
  if (profile_) profile_->TryWrite();
}

void Ep::OpenProfile() {
  try {
    profile_ = runtime_->OpenProfile(settings_.options.profile_file);
  } catch (const Error& error) {
    throw Error(error.code(), Concat("option 'profile_file': ", error.what()));
  }
  MeasureOps();
}

// Has to be known before something is compiled.
void Ep::MeasureOps() {
  build_options_.names_origins = true;
  build_options_.properties.try_emplace(kProfilingProperty, "YES");
}

void Ep::Log(OrtLoggingLevel level, const std::string& message) const noexcept {
  OrtStatus* failed = ort_.api.Logger_LogMessage(logger_, level, ("Tandem: " + message).c_str(),
                                                 ORT_FILE, __LINE__, __func__);
  if (failed != nullptr) ort_.api.ReleaseStatus(failed);
}

const char* ORT_API_CALL Ep::GetNameImpl(const OrtEp*) noexcept {
  return kEpName;
}

OrtStatus* ORT_API_CALL Ep::GetCapabilityImpl(OrtEp* self, const OrtGraph* graph,
                                              OrtEpGraphSupportInfo* support) noexcept {
  auto& ep = *static_cast<Ep*>(self);
  return Guarded(ep.ort_.api, [&] { ep.GetCapability(graph, support); });
}

OrtStatus* ORT_API_CALL Ep::CompileImpl(OrtEp* self, const OrtGraph** graphs,
                                        const OrtNode** fused_nodes, size_t count,
                                        OrtNodeComputeInfo** compute_infos,
                                        OrtNode** context_nodes) noexcept {
  auto& ep = *static_cast<Ep*>(self);
  return Guarded(ep.ort_.api,
                 [&] { ep.Compile(graphs, fused_nodes, count, compute_infos, context_nodes); });
}

const char* ORT_API_CALL Ep::GetCompiledModelCompatibilityInfoImpl(OrtEp* self,
                                                                   const OrtGraph*) noexcept {
  return static_cast<Ep*>(self)->compatibility_info_.c_str();
}

void ORT_API_CALL Ep::ReleaseNodeComputeInfosImpl(OrtEp*, OrtNodeComputeInfo** compute_infos,
                                                  size_t count) noexcept {
  for (size_t i = 0; i < count; ++i) delete static_cast<NodeCompute*>(compute_infos[i]);
}

OrtStatus* ORT_API_CALL Ep::IsConcurrentRunSupportedImpl(OrtEp*, bool* supported) noexcept {
  *supported = true;
  return nullptr;
}

OrtStatus* ORT_API_CALL Ep::OnSessionInitializationEndImpl(OrtEp* self) noexcept {
  auto& ep = *static_cast<Ep*>(self);
  return Guarded(ep.ort_.api, [&] { ep.ReleaseMemory(); });
}

#if ORT_API_VERSION >= 25
OrtStatus* ORT_API_CALL Ep::CreateProfilerImpl(OrtEp* self, OrtEpProfilerImpl** profiler) noexcept {
  auto& ep = *static_cast<Ep*>(self);
  return Guarded(ep.ort_.api, [&] {
    *profiler = std::make_unique<EpProfiler>(ep.ort_, ep.ort_profiles_).release();
  });
}
#endif

void Ep::GetCapability(const OrtGraph* ort_graph, OrtEpGraphSupportInfo* support) {
  if (IsBody(ort_, ort_graph)) return;  // it goes with the node that it belongs to
  if (*ort_profiles_) MeasureOps();
  const std::vector<const OrtNode*> nodes = NodesOf(ort_, ort_graph);
  prepared_.clear();
  failure_ = nullptr;
  model_file_ = ModelFile(ort_, ort_graph);
  record_.model = model_file_.string();
  // ONNX Runtime asks again after it has put functions that nobody took in other words. What is
  // Tandem's by then stays so.
  const bool asks_again =
      std::any_of(nodes.begin(), nodes.end(), [this](const OrtNode* node) { return IsOwn(node); });
  if (!asks_again) {
    record_.claimed_nodes = 0;
    record_.programs.clear();
  }
  record_.declined.clear();
  std::vector<const OrtNode*> contexts;
  try {
    for (const OrtNode* node : nodes) {
      if (IsContextNode(ort_, node)) contexts.push_back(node);
    }
    if (contexts.empty()) {
      PlanModel(ort_graph, nodes, support);
    } else {
      PlanCompiledModel(nodes, contexts, support);
    }
    Report();
    Log(ORT_LOGGING_LEVEL_INFO,
        Concat("takes ", record_.claimed_nodes, " of ",
               record_.claimed_nodes + record_.declined.size(), " nodes, in ",
               record_.programs.size() + prepared_.size(), " partitions"));
    for (const auto& node : record_.declined) {
      Log(ORT_LOGGING_LEVEL_VERBOSE,
          Concat("leaves ", node.op_type, " '", node.name, "': ", node.reason));
    }
  } catch (const std::exception&) {
    // ONNX Runtime logs an error of this call and goes on without the provider. The user shall see
    // it: take all nodes, and fail when they are to be compiled.
    failure_ = std::current_exception();
    Claim(contexts.empty() ? nodes : contexts, support);
  }
}

void Ep::PlanModel(const OrtGraph* ort_graph, const std::vector<const OrtNode*>& nodes,
                   OrtEpGraphSupportInfo* support) {
  const Graph graph = ImportGraph(ort_, ort_graph, runtime_->store(), settings_.data_folder);
  if (settings_.context.enabled && settings_.context.embeds) {
    uint64_t bytes = 0;
    for (const Value& value : graph.values) {
      if (value.weight) bytes += value.weight->bytes.size();
    }
    CheckEmbeddable(bytes);
  }
  std::optional<ProgramCache> cache;
  if (!settings_.options.cache_dir.empty() && !settings_.context.enabled) {
    const auto limit = static_cast<uint64_t>(settings_.options.cache_size_limit) << 20;
    cache.emplace(settings_.options.cache_dir, limit, settings_.options.verify);
  }
  std::vector<Reason> declined = WhyDeclined(graph);
  for (NodeId id = 0; id < nodes.size(); ++id) {
    if (IsOwn(nodes[id])) declined[id] = "it is Tandem's already";
  }
  Plan plan = MakePlan(*runtime_, *device_, build_options_, graph, std::move(declined),
                       cache ? &*cache : nullptr);
  if (cache) {
    for (const std::string& warning : cache->TakeWarnings())
      Log(ORT_LOGGING_LEVEL_WARNING, warning);
  }
  for (NodeId id = 0; id < nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (plan.declined[id] && !IsOwn(nodes[id])) {
      record_.declined.push_back({node.name, node.op_type, *plan.declined[id]});
    }
  }
  for (Plan::Partition& partition : plan.partitions) {
    std::vector<const OrtNode*> claimed;
    for (NodeId id : partition.nodes) claimed.push_back(nodes[id]);
    record_.claimed_nodes += claimed.size();
    prepared_[IdsOf(ort_, claimed)] = std::move(partition.program);
    Claim(claimed, support);
  }
}

// Tandem declined the nodes around its own when the model was compiled.
void Ep::PlanCompiledModel(const std::vector<const OrtNode*>& nodes,
                           const std::vector<const OrtNode*>& contexts,
                           OrtEpGraphSupportInfo* support) {
  if (settings_.context.enabled) {
    throw Error(ErrorCode::kInvalidArgument, "ep.context_enable: the model is compiled already");
  }
  auto programs = LoadContexts(ort_, contexts, *runtime_, *device_, build_options_.properties,
                               PlacesOfBundle(), settings_.options.verify);
  for (size_t i = 0; i < contexts.size(); ++i) {
    prepared_[IdsOf(ort_, {contexts[i]})] = std::move(programs[i]);
    Claim({contexts[i]}, support);
  }
  record_.claimed_nodes = contexts.size();
  for (const OrtNode* node : nodes) {
    if (IsContextNode(ort_, node)) continue;
    record_.declined.push_back(
        {NodeName(ort_, node), OpType(ort_, node), "it was left when the model was compiled"});
  }
}

// The model's own folder, and what the user says in its place. With a folder for external data,
// ONNX Runtime (since 1.24) says that the model lies there.
BundlePlaces Ep::PlacesOfBundle() const {
  BundlePlaces places;
  places.model_file = model_file_;
  const auto add = [&](const std::filesystem::path& folder) {
    auto& folders = places.folders;
    if (std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(folder);
  };
  if (!settings_.context.file.empty()) add(settings_.context.file.parent_path());
  if (!model_file_.empty()) add(model_file_.parent_path());
  if (!settings_.data_folder.empty()) add(settings_.data_folder);
  return places;
}

bool Ep::IsOwn(const OrtNode* node) const {
  return ProviderOf(ort_, node) == kEpName;
}

std::vector<Reason> Ep::WhyDeclined(const Graph& graph) const {
  std::vector<Reason> reasons = DeclinedNodes(graph, build_options_.has_shared_ops);
  if (PassesCaptures(ort_)) return reasons;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    for (ValueId value : graph.nodes[id].captures) {
      if (reasons[id] || graph[value].weight) continue;
      reasons[id] = Concat("its body reads '", graph[value].name,
                           "', which ONNX Runtime does not hand over before 1.27");
    }
  }
  return reasons;
}

void Ep::Claim(const std::vector<const OrtNode*>& nodes, OrtEpGraphSupportInfo* support) {
  if (nodes.empty()) return;
  OrtNodeFusionOptions options{};
  options.ort_version_supported = ORT_API_VERSION;
  options.drop_constant_initializers = true;  // the programs hold their weights themselves
  ThrowIfFailed(ort_.api, ort_.ep.EpGraphSupportInfo_AddNodesToFuse(support, nodes.data(),
                                                                    nodes.size(), &options));
}

void Ep::Compile(const OrtGraph* const* graphs, const OrtNode* const* fused_nodes, size_t count,
                 OrtNodeComputeInfo** compute_infos, OrtNode** context_nodes) {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  std::vector<std::unique_ptr<NodeCompute>> computes;
  NodeCompute::Rethread rethread;
  if (settings_.options.num_of_threads == 0 && settings_.device == "CPU") {
    rethread = [runtime = runtime_, device = device_, options = build_options_](
                   const Program& program, int threads) {
      return WithThreads(*runtime, *device, options, program, threads);
    };
  }
  std::vector<std::shared_ptr<const Program>> programs;
  for (size_t i = 0; i < count; ++i) {
    auto program = ProgramFor(graphs[i]);
    programs.push_back(program);
    computes.push_back(std::make_unique<NodeCompute>(
        ort_, std::move(program), InputNames(ort_, fused_nodes[i]),
        OutputNames(ort_, fused_nodes[i]), static_cast<size_t>(settings_.options.num_streams),
        rethread, profile_, Concat("session ", log_entry_, ", ", NodeName(ort_, fused_nodes[i]))));
  }
  prepared_.clear();
  record_.programs.insert(record_.programs.end(), programs.begin(), programs.end());
  if (settings_.context.enabled) {
    const auto nodes = WriteContexts(ort_, {fused_nodes, fused_nodes + count}, programs, *runtime_,
                                     settings_.device, settings_.context, model_file_);
    std::copy(nodes.begin(), nodes.end(), context_nodes);
  }
  Report();
  // From 1.27 on ONNX Runtime says when the session is ready; it frees the graph before that.
  if (!TellsEndOfInitialization(ort_)) ReleaseMemory();
  for (size_t i = 0; i < count; ++i) compute_infos[i] = computes[i].release();
}

void Ep::Report() {
  try {
    runtime_->sessions().Set(log_entry_, record_);
  } catch (const Error& error) {
    throw Error(error.code(), Concat("option 'report_file': ", error.what()));
  }
}

void Ep::ReleaseMemory() {
  runtime_->store().ReleasePages();
  ReturnFreeMemory();
}

std::shared_ptr<const Program> Ep::ProgramFor(const OrtGraph* ort_graph) {
  const auto prepared = prepared_.find(IdsOf(ort_, NodesOf(ort_, ort_graph)));
  if (prepared != prepared_.end()) return prepared->second;
  const std::vector<const OrtNode*> nodes = NodesOf(ort_, ort_graph);
  if (nodes.size() == 1 && IsContextNode(ort_, nodes.front())) {
    return LoadContexts(ort_, nodes, *runtime_, *device_, build_options_.properties,
                        PlacesOfBundle(), settings_.options.verify)
        .front();
  }
  // ONNX Runtime cut the graph in another way than it was claimed.
  const Graph graph = ImportGraph(ort_, ort_graph, runtime_->store(), settings_.data_folder);
  return BuildProgram(*runtime_, *device_, build_options_, graph);
}

}  // namespace tandem

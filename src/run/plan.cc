#include "run/plan.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "graph/partition.h"
#include "graph/signature.h"

namespace tandem {
namespace {

// Up to here a partition may be not worth its own.
constexpr size_t kFewNodes = 8;

class Planner {
 public:
  Planner(Runtime& runtime, Device& device, const BuildOptions& options, const Graph& graph,
          ProgramCache* cache)
      : runtime_(runtime),
        device_(device),
        options_(options),
        graph_(graph),
        index_(graph),
        cache_(cache) {}

  Plan Make(std::vector<Reason> declined) {
    Plan plan;
    plan.declined = std::move(declined);
    // Each round either compiles everything or declines at least one node more.
    while (!TryPartitions(plan)) {
    }
    if (cache_ != nullptr) cache_->Keep(runtime_, device_);
    return plan;
  }

 private:
  bool TryPartitions(Plan& plan) {
    plan.partitions.clear();
    std::vector<bool> supported;
    for (const Reason& reason : plan.declined) supported.push_back(!reason);
    auto partitions = PartitionNodes(graph_, index_, supported);
    if (partitions.size() > 1 && DeclineBookkeeping(partitions, plan)) return false;
    for (auto& nodes : partitions) {
      std::shared_ptr<const Program> program;
      if (const Reason reason = TryCompile(nodes, options_, cache_, &program)) {
        Decline(nodes, *reason, plan);
        return false;
      }
      plan.partitions.push_back({std::move(nodes), std::move(program)});
    }
    return true;
  }

  // Declines partitions of a few nodes that only compute integers: shapes and positions, which lead
  // up to what another partition computes. Running them apart costs more than it saves.
  bool DeclineBookkeeping(const std::vector<std::vector<NodeId>>& partitions, Plan& plan) {
    bool found = false;
    for (const std::vector<NodeId>& nodes : partitions) {
      if (nodes.size() > kFewNodes || !std::all_of(nodes.begin(), nodes.end(), [this](NodeId id) {
            return MakesIntegers(graph_.nodes[id]);
          })) {
        continue;
      }
      found = true;
      for (NodeId id : nodes)
        plan.declined[id] = "a few integers, not worth a partition of their own";
    }
    return found;
  }

  bool MakesIntegers(const Node& node) const {
    return std::none_of(node.outputs.begin(), node.outputs.end(), [this](ValueId value) {
      return value != kNoValue && IsFloat(graph_[value].type);
    });
  }

  // The reason why the device does not take `nodes`; none when it does.
  Reason TryCompile(const std::vector<NodeId>& nodes, const BuildOptions& options,
                    ProgramCache* cache, std::shared_ptr<const Program>* program) {
    try {
      const Graph part = ExtractNodes(graph_, index_, nodes);
      *program = cache == nullptr ? BuildProgram(runtime_, device_, options, part)
                                  : cache->Build(runtime_, device_, options, part);
      return std::nullopt;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      return error.what();
    }
  }

  // Declines the nodes of a failed partition that fail alone, too; all of them when each is fine.
  void Decline(const std::vector<NodeId>& nodes, const std::string& why, Plan& plan) {
    bool found = false;
    for (NodeId node : nodes) {
      if (Reason reason = TryAlone(node)) {
        plan.declined[node] = std::move(reason);
        found = true;
      }
    }
    if (found) return;
    for (NodeId node : nodes) plan.declined[node] = "together with others: " + why;
  }

  Reason TryAlone(NodeId id) {
    const Node& node = graph_.nodes[id];
    if (!Bodies(node).empty()) return TryCompileAlone(id);
    const auto [known, is_new] = verdicts_.try_emplace(NodeSignature(graph_, node));
    if (is_new) known->second = TryCompileAlone(id);
    return known->second;
  }

  Reason TryCompileAlone(NodeId id) {
    BuildOptions options = options_;
    options.folds = false;
    std::shared_ptr<const Program> program;
    return TryCompile({id}, options, nullptr, &program);
  }

  Runtime& runtime_;
  Device& device_;
  const BuildOptions& options_;
  const Graph& graph_;
  GraphIndex index_;
  ProgramCache* cache_;
  std::unordered_map<Digest, Reason> verdicts_;
};

}  // namespace

Plan MakePlan(Runtime& runtime, Device& device, const BuildOptions& options, const Graph& graph,
              std::vector<Reason> declined, ProgramCache* cache) {
  return Planner(runtime, device, options, graph, cache).Make(std::move(declined));
}

}  // namespace tandem

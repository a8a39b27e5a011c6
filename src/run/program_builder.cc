#include "run/program_builder.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "base/strings.h"
#include "graph/origins.h"
#include "graph/topology.h"
#include "run/host_function.h"
#include "run/weight_forms.h"

namespace tandem {
namespace {

// Operators whose output can be their first argument's memory, changed in place.
bool ChangesInPlace(const Node& node) {
  return node.op_type == "ScatterElements" || node.op_type == "ScatterND" ||
         IsOp(node, "GroupQueryAttention", kMicrosoftDomain);
}

// Throws Error(kUnsupported) when OpenVINO makes something else of a value than the model says.
void CheckAgrees(const Value& value, const Port& port) {
  if (value.type != port.type) {
    throw Error(ErrorCode::kUnsupported,
                Concat("OpenVINO makes '", value.name, "' ", Name(port.type),
                       ", which the model says is ", Name(value.type)));
  }
  const auto agree = [](int64_t a, int64_t b) { return a == b || a < 0 || b < 0; };
  if (value.shape && !std::equal(value.shape->begin(), value.shape->end(), port.shape.begin(),
                                 port.shape.end(), agree)) {
    throw Error(ErrorCode::kUnsupported,
                Concat("OpenVINO makes '", value.name, "' ", ShapeText(port.shape),
                       ", which the model says is ", ShapeText(*value.shape)));
  }
}

bool IsFolded(const CallGraph& calls) {
  return calls.calls.size() > calls.functions.size();
}

class ProgramBuilder {
 public:
  // `graph` is lowered from `partition`.
  ProgramBuilder(Runtime& runtime, Device& device, const BuildOptions& options,
                 const Graph& partition, Graph graph)
      : device_(device),
        options_(options),
        functions_(runtime.functions()),
        store_(runtime.store()),
        forms_(runtime.store(), runtime.bank()),
        graph_(std::move(graph)) {
    if (options.names_origins) NameOrigins(partition);
  }

  std::shared_ptr<const Program> Build(const CallGraph& calls) {
    program_ = {};
    values_.clear();
    is_folded_ = IsFolded(calls);
    for (size_t i = 0; i < calls.functions.size(); ++i) {
      const bool on_host = i == 0 && calls.first_is_on_host;
      program_.functions.push_back(on_host ? HostFunction(calls.functions[i])
                                           : CompileFunction(calls.functions[i]));
    }
    AddInputsAndOutputs();
    HoldMultipliedWeights(calls);
    std::vector<size_t> runs(calls.functions.size());
    for (const FunctionCall& call : calls.calls) {
      AddCall(calls.functions[call.function], call, runs[call.function]++);
    }
    PlaceIntermediates(program_);
    AddInPlacePairs();
    return std::make_shared<const Program>(std::move(program_));
  }

 private:
  void NameOrigins(const Graph& partition) {
    const auto origins = Origins(partition, graph_);
    for (NodeId id = 0; id < origins.size(); ++id) {
      std::vector<std::string> names;
      for (NodeId origin : origins[id]) {
        names.push_back(NameInTopology(partition, partition.nodes[origin]));
      }
      const size_t more = names.size() - std::min(names.size(), kMaxOrigins);
      names.resize(names.size() - more);
      if (more > 0) names.push_back(Concat(more, " more"));
      const std::string& name = NameInTopology(graph_, graph_.nodes[id]);
      std::string nodes = Join(names, ", ");
      if (nodes == name) nodes.clear();
      origins_.push_back({name, std::move(nodes)});
    }
  }

  // Constants as inputs first; where the front end insists on a constant, all of the function's as
  // references to their files.
  Program::CompiledFunction CompileFunction(const Graph& function) {
    try {
      return CompileFunction(function, DefaultPlaces(function), "used as a tensor");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      std::vector<WeightPlace> places = DefaultPlaces(function);
      if (std::find(places.begin(), places.end(), WeightPlace::kInput) == places.end()) throw;
      std::replace(places.begin(), places.end(), WeightPlace::kInput,
                   options_.is_self_contained ? WeightPlace::kInline : WeightPlace::kExternal);
      return CompileFunction(function, places, "an operator insists on a constant");
    }
  }

  Program::CompiledFunction CompileFunction(const Graph& function,
                                            const std::vector<WeightPlace>& places,
                                            const std::string& why_constant) {
    Topology topology = WriteTopology(function, places);
    auto source = std::make_shared<FunctionSource>();
    Program::CompiledFunction compiled;
    for (ValueId id : function.inputs) source->inputs.push_back(function[id].name);
    for (ValueId id : function.outputs) source->outputs.push_back(function[id].name);
    if (!function.matrices.empty()) source->inputs.emplace_back(kSlotsInput);
    if (function.caches > 0) source->inputs.emplace_back(kCachesInput);
    source->is_compact = is_folded_;

    std::vector<Program::Constant> constants;
    DigestBuilder external;
    for (ValueId id = 0; id < function.values.size(); ++id) {
      const auto& weight = function[id].weight;
      if (!weight || places[id] == WeightPlace::kInline) continue;
      if (places[id] == WeightPlace::kExternal) external << store_.KeyOf(*weight);
      constants.push_back({function[id].name, weight->bytes.size(), why_constant});
    }
    for (ValueId id : topology.constants) {
      const WeightHandle handle = forms_.Plain(*function[id].weight);
      Tensor tensor = *handle->form().plain;
      tensor.owner = handle;
      source->constants[function[id].name] = std::move(tensor);
      compiled.constants[function[id].name] = program_.AddWeight(function[id].name, handle);
    }
    source->topology = std::move(topology.model);
    source->topology_inputs = std::move(topology.inputs);
    compiled.source = std::move(source);
    compiled.source_key = SourceKey(program_, compiled, external.Finish());
    compiled.function = CompileShared(functions_, device_, options_.properties, compiled);
    program_.constants.insert(program_.constants.end(), constants.begin(), constants.end());
    return compiled;
  }

  void AddInputsAndOutputs() {
    for (ValueId id : graph_.inputs) {
      ValueOf(id, {.kind = Program::ValueKind::kInput, .index = program_.inputs.size()});
      program_.inputs.push_back(graph_[id].name);
    }
    for (ValueId id : graph_.outputs) {
      ValueOf(id, {.kind = Program::ValueKind::kOutput, .index = program_.outputs.size()});
      program_.outputs.push_back({graph_[id].name, graph_[id].type, {}});
    }
  }

  // The program's value for a value of the graph, made like `fresh` when it is new.
  size_t ValueOf(ValueId id, Program::Value fresh) {
    const auto [place, is_new] = values_.try_emplace(id, program_.values.size());
    if (is_new) program_.values.push_back(std::move(fresh));
    return place->second;
  }

  // Before any gather asks: it takes the packed form of a table, if a product needs that anyway.
  void HoldMultipliedWeights(const CallGraph& calls) {
    for (const FunctionCall& call : calls.calls) {
      for (const Node& node : calls.functions[call.function].nodes) {
        if (node.op_type != "SharedMatMul") continue;
        for (size_t matrix : node.matrices) {
          multiplied_.push_back(forms_.Packed(call.matrices[matrix]));
        }
      }
    }
  }

  static constexpr size_t kNone = Program::Call::Cache::kNone;

  void AddCall(const Graph& function, const FunctionCall& call, size_t run) {
    const Function& compiled = *program_.functions[call.function].function;
    Program::Call added;
    added.function = call.function;
    const auto& ports = compiled.outputs();
    const bool all_static = std::all_of(ports.begin(), ports.end(),
                                        [](const Port& port) { return IsStatic(port.shape); });
    added.request = all_static ? 0 : run % 2;
    for (ValueId id : call.inputs) added.inputs.push_back(AddInput(id));
    if (!function.matrices.empty()) added.inputs.push_back(AddSlots(function, call));
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      added.outputs.push_back(AddOutput(call.outputs[i], ports[i]));
    }
    for (const FunctionCall::Cache& cache : call.caches) {
      added.caches.push_back({cache.past == kNoValue ? kNone : AddInput(cache.past),
                              cache.present == kNoValue ? kNone : AddCache(cache.present)});
    }
    if (!origins_.empty()) AddOrigins(function, call, added);
    program_.calls.push_back(std::move(added));
  }

  void AddOrigins(const Graph& function, const FunctionCall& call, Program::Call& added) const {
    for (size_t i = 0; i < call.nodes.size(); ++i) {
      const Node& node = function.nodes[i];
      const Program::Call::Origin& origin = origins_[call.nodes[i]];
      added.origins[NameInTopology(function, node)] = origin;
      // OpenVINO calls the one that makes a result of the function by that.
      for (ValueId value : node.outputs) {
        if (value != kNoValue) added.origins.try_emplace(function[value].name, origin);
      }
    }
  }

  size_t AddInput(ValueId id) {
    Program::Value value;
    if (const auto& weight = graph_[id].weight) {
      const WeightHandle handle = forms_.Plain(*weight);
      value.kind = Program::ValueKind::kConstant;
      value.constant = *handle->form().plain;
      value.weights = {program_.AddWeight(graph_[id].name, handle)};
    }
    return ValueOf(id, std::move(value));
  }

  // The numbers of the call's weights, as the function's last input.
  size_t AddSlots(const Graph& function, const FunctionCall& call) {
    Program::Value slots{.kind = Program::ValueKind::kConstant, .is_slots = true};
    slots.weights.resize(call.matrices.size());
    for (const Node& node : function.nodes) {
      for (size_t position : node.matrices) {
        const Matrix& matrix = call.matrices[position];
        const WeightHandle handle =
            node.op_type == "SharedMatMul" ? forms_.Packed(matrix) : forms_.Rows(matrix);
        slots.weights[position] = program_.AddWeight(matrix.codes->name, handle);
      }
    }
    slots.constant = SlotNumbers(program_, slots.weights);
    program_.values.push_back(std::move(slots));
    return program_.values.size() - 1;
  }

  size_t AddCache(ValueId id) {
    Program::Value fresh;
    const size_t place = ValueOf(id, fresh);
    Program::Value& value = program_.values[place];
    value.type = graph_[id].type;
    // Whatever the model says: the attention asks for it when it runs.
    value.shape = Shape(graph_[id].shape->size(), -1);
    if (value.kind == Program::ValueKind::kOutput)
      program_.outputs[value.index].shape = value.shape;
    return place;
  }

  size_t AddOutput(ValueId id, const Port& port) {
    Program::Value fresh;
    fresh.type = port.type;
    fresh.shape = port.shape;
    if (id == kNoValue) {  // nobody reads it, but it is written somewhere
      program_.values.push_back(std::move(fresh));
      return program_.values.size() - 1;
    }
    CheckAgrees(graph_[id], port);
    const size_t place = ValueOf(id, fresh);
    Program::Value& value = program_.values[place];
    value.type = port.type;
    value.shape = port.shape;
    if (value.kind == Program::ValueKind::kOutput) {
      program_.outputs[value.index].type = port.type;
      program_.outputs[value.index].shape = port.shape;
    }
    return place;
  }

  // A cache that is read by one node only, which returns it changed, may be changed where it is.
  void AddInPlacePairs() {
    const GraphIndex index(graph_);
    for (size_t output = 0; output < graph_.outputs.size(); ++output) {
      const NodeId id = index.Producer(graph_.outputs[output]);
      if (id == GraphIndex::kNoNode || !ChangesInPlace(graph_.nodes[id])) continue;
      for (size_t input = 0; input < graph_.inputs.size(); ++input) {
        const std::vector<NodeId>& readers = index.Consumers(graph_.inputs[input]);
        if (readers == std::vector<NodeId>{id}) program_.in_place.emplace_back(input, output);
      }
    }
  }

  // The 40 of an attention in plain operators would make profiles large, and say little.
  static constexpr size_t kMaxOrigins = 8;

  Device& device_;
  const BuildOptions& options_;
  WeakCache<Digest, Function>& functions_;
  WeightStore& store_;
  WeightForms forms_;
  Graph graph_;
  std::vector<Program::Call::Origin> origins_;  // by node of graph_, if they are asked for
  bool is_folded_ = false;
  Program program_;
  std::unordered_map<ValueId, size_t> values_;
  std::vector<WeightHandle> multiplied_;
};

}  // namespace

Program::CompiledFunction HostFunction(Graph graph) {
  for (Value& value : graph.values) {
    if (!value.weight) continue;
    const Weight& weight = *value.weight;  // in memory that may go
    value.weight = OwnedWeight(weight.name, weight.type, weight.shape,
                               {weight.bytes.begin(), weight.bytes.end()});
  }
  Program::CompiledFunction compiled;
  compiled.function = MakeHostFunction(graph);
  compiled.host = std::make_shared<const Graph>(std::move(graph));
  return compiled;
}

Digest SourceKey(const Program& program, const Program::CompiledFunction& function,
                 const Digest& external) {
  DigestBuilder key;
  key.Add(function.source->topology).Add(int64_t{function.source->is_compact}).Add(external);
  for (const auto& [name, weight] : function.constants) {
    key.Add(name).Add(program.weights[weight].second->form().key);
  }
  return key.Finish();
}

std::shared_ptr<Function> CompileShared(WeakCache<Digest, Function>& functions, Device& device,
                                        const Properties& properties,
                                        const Program::CompiledFunction& function) {
  DigestBuilder key;
  key.Add(device.name()).Add(function.source_key);
  for (const auto& [name, value] : properties) key.Add(name).Add(value);
  return functions.Get(key.Finish(), [&] { return device.Compile(*function.source, properties); });
}

Tensor SlotNumbers(const Program& program, const std::vector<size_t>& weights) {
  const Tensor slots = AllocateTensor(DataType::kInt32, {std::ssize(weights)});
  auto* numbers = reinterpret_cast<int32_t*>(slots.data);
  for (size_t weight : weights) *numbers++ = program.weights[weight].second->number();
  return slots;
}

std::shared_ptr<const Program> BuildProgram(Runtime& runtime, Device& device,
                                            const BuildOptions& options, const Graph& partition) {
  const Graph graph = options.has_shared_ops
                          ? Lower(partition, options.activations, options.qdq_accuracy_level)
                          : partition;
  ProgramBuilder builder(runtime, device, options, partition, graph);
  if (options.has_shared_ops && options.folds) {
    const CallGraph folded = FoldRepeats(graph, options.fold_limits);
    if (IsFolded(folded)) {
      try {
        return builder.Build(folded);
      } catch (const Error& error) {
        // A function's input that an operator wants as a constant; it is one in the whole graph.
        if (error.code() != ErrorCode::kUnsupported) throw;
      }
    }
  }
  return builder.Build(WholeGraph(graph));
}

std::shared_ptr<const Program> WithThreads(Runtime& runtime, Device& device,
                                           const BuildOptions& options, const Program& program,
                                           int threads) {
  Properties properties = options.properties;
  properties[kThreadsProperty] = std::to_string(threads);
  auto changed = std::make_shared<Program>(program);
  for (Program::CompiledFunction& function : changed->functions) {
    if (function.host) continue;  // it runs on the calling thread
    function.function = CompileShared(runtime.functions(), device, properties, function);
  }
  return changed;
}

}  // namespace tandem

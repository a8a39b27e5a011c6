#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/weights_bank.h"
#include "graph/graph.h"

namespace tandem {

// A partition of a model, compiled: functions, the calls of them in order, and the values that flow
// between the calls. Immutable, hence safe from any thread; a ProgramRequest runs it.
struct Program {
  // What a value is bound to when the program runs.
  enum class ValueKind {
    kInput,     // input `index` of the program
    kOutput,    // output `index` of the program; later calls may read it too
    kConstant,  // `constant`
    kBuffer,    // buffer `index` of the request
    kResult,    // the memory of the request that made it, or a copy (`must_copy`)
  };

  struct Value {
    ValueKind kind = ValueKind::kResult;
    size_t index = 0;
    DataType type = DataType::kUndefined;
    Shape shape;  // -1: known only when it runs
    Tensor constant;
    // Where the constant comes from, in `weights`: itself, or those whose numbers it lists.
    std::vector<size_t> weights;
    bool is_slots = false;   // the constant is i32 [weights], their numbers
    bool must_copy = false;  // it is read after its request may have run again
  };

  // A compiled function and what it was made from, so that it can be made again: with other
  // settings, or in another process.
  struct CompiledFunction {
    std::shared_ptr<Function> function;
    std::shared_ptr<const FunctionSource> source;  // null: the host's (run/host_function.h)
    Digest source_key;                        // of the topology and the content of its constants
    std::map<std::string, size_t> constants;  // of the source: positions in `weights`
    std::shared_ptr<const Graph> host;        // null: the device's
  };

  // One run of a function. Values are positions in Program::values.
  struct Call {
    size_t function = 0;
    // Which of the function's requests runs it: calls of a function take turns between two, so that
    // one can read what the other has just made.
    size_t request = 0;
    std::vector<size_t> inputs;
    std::vector<size_t> outputs;

    // Keys or values of an attention. They are the function's last input, as addresses
    // (device/kv_cache.h).
    struct Cache {
      static constexpr size_t kNone = SIZE_MAX;
      size_t past = kNone;
      size_t present = kNone;  // kNone: not kept
    };
    std::vector<Cache> caches;

    // What an operator of the function is in this call, for a profile: its name, and the model's
    // nodes that it stands for, if they are others.
    struct Origin {
      std::string name;
      std::string nodes;
    };
    std::map<std::string, Origin> origins;  // by its name in the topology; none: not asked for
  };

  // Why a constant is held by OpenVINO itself.
  struct Constant {
    std::string name;
    uint64_t bytes = 0;
    std::string reason;
  };

  struct Output {
    std::string name;
    DataType type = DataType::kUndefined;
    Shape shape;  // -1: known only when it runs
  };

  std::vector<std::string> inputs;
  std::vector<Output> outputs;
  std::vector<Value> values;
  std::vector<CompiledFunction> functions;
  std::vector<Call> calls;
  std::vector<uint64_t> buffer_bytes;
  // (input, output) that may be one buffer: the output is the input, changed in place.
  std::vector<std::pair<size_t, size_t>> in_place;

  // What keeps the weights alive, and what the session report tells.
  std::vector<std::pair<std::string, WeightHandle>> weights;  // by name in the model

  size_t AddWeight(const std::string& name, WeightHandle handle) {
    weights.emplace_back(name, std::move(handle));
    return weights.size() - 1;
  }

  std::vector<Constant> constants;
};

// Decides where the values live that no input, output or constant gives a place (kind kResult with
// a static shape becomes kBuffer), sharing buffers between values that are not alive at one time,
// and which results must be copied.
void PlaceIntermediates(Program& program);

}  // namespace tandem

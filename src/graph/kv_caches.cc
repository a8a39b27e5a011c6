#include "graph/kv_caches.h"

#include <algorithm>

#include "graph/attention_ports.h"

namespace tandem {
namespace {

using Ports = AttentionPorts;

bool IsAttention(const Node& node) {
  return IsOp(node, "Attention", kTandemDomain);
}

// Takes a value out of the function's list, and what the calls have in its place out of theirs.
void TakeOut(std::vector<ValueId>& list, ValueId value, const std::vector<FunctionCall*>& calls,
             std::vector<ValueId> FunctionCall::* calls_list) {
  const auto found = std::find(list.begin(), list.end(), value);
  if (found == list.end()) return;
  const auto place = found - list.begin();
  list.erase(found);
  for (FunctionCall* call : calls) {
    (call->*calls_list).erase((call->*calls_list).begin() + place);
  }
}

}  // namespace

void BindCaches(Graph& function, const std::vector<FunctionCall*>& calls) {
  struct Pair {
    ValueId past;
    ValueId present;
  };
  std::vector<Pair> caches;
  for (Node& node : function.nodes) {
    if (!IsAttention(node)) continue;
    node.inputs.resize(Ports::kInputs, kNoValue);
    node.outputs.resize(Ports::kOutputs, kNoValue);
    if (node.outputs[Ports::kPresentKey] != kNoValue) {
      node.attributes.push_back({"cache", std::ssize(caches)});
      for (size_t kind : {0, 1}) {
        caches.push_back(
            {node.inputs[Ports::kPastKey + kind], node.outputs[Ports::kPresentKey + kind]});
      }
    }
    std::vector<int64_t> inputs;  // what is left
    std::vector<ValueId> values;
    for (size_t i = 0; i < Ports::kPastKey; ++i) {
      if (node.inputs[i] == kNoValue) continue;
      inputs.push_back(static_cast<int64_t>(i));
      values.push_back(node.inputs[i]);
    }
    if (node.outputs[Ports::kPresentKey] != kNoValue) inputs.push_back(Ports::kAddress);
    node.inputs = std::move(values);
    node.outputs.resize(1);
    node.attributes.push_back({"inputs", std::move(inputs)});
  }
  function.caches = caches.size();
  const auto value_of = [](const std::vector<ValueId>& list, ValueId value,
                           const std::vector<ValueId>& call) {
    const auto found = std::find(list.begin(), list.end(), value);
    return found == list.end() ? kNoValue : call[static_cast<size_t>(found - list.begin())];
  };
  for (FunctionCall* call : calls) {
    for (const Pair& cache : caches) {
      call->caches.push_back({value_of(function.inputs, cache.past, call->inputs),
                              value_of(function.outputs, cache.present, call->outputs)});
    }
  }
  const GraphIndex index(function);
  for (const Pair& cache : caches) {
    TakeOut(function.outputs, cache.present, calls, &FunctionCall::outputs);
    if (cache.past == kNoValue || !index.Consumers(cache.past).empty()) continue;
    TakeOut(function.inputs, cache.past, calls, &FunctionCall::inputs);
  }
}

}  // namespace tandem

#include "run/program.h"

#include <algorithm>

namespace tandem {
namespace {

// From the call that makes a value to the last one that reads it.
struct Lifetime {
  size_t made = SIZE_MAX;
  size_t last_read = 0;
};

std::vector<Lifetime> Lifetimes(const Program& program) {
  std::vector<Lifetime> lifetimes(program.values.size());
  for (size_t call = 0; call < program.calls.size(); ++call) {
    for (size_t value : program.calls[call].outputs) lifetimes[value] = {call, call};
    for (size_t value : program.calls[call].inputs) lifetimes[value].last_read = call;
    for (const auto& cache : program.calls[call].caches) {
      if (cache.past != Program::Call::Cache::kNone) lifetimes[cache.past].last_read = call;
    }
  }
  return lifetimes;
}

// The next call after `call` that runs in the same request, which then overwrites its results.
size_t NextRunOfRequest(const Program& program, size_t call) {
  const auto same = [&](const Program::Call& other) {
    return other.function == program.calls[call].function &&
           other.request == program.calls[call].request;
  };
  const auto next = std::find_if(program.calls.begin() + static_cast<std::ptrdiff_t>(call) + 1,
                                 program.calls.end(), same);
  return static_cast<size_t>(next - program.calls.begin());
}

}  // namespace

void PlaceIntermediates(Program& program) {
  const std::vector<Lifetime> lifetimes = Lifetimes(program);
  std::vector<size_t> free_from;  // by buffer: the first call that may write to it
  for (size_t call = 0; call < program.calls.size(); ++call) {
    for (size_t id : program.calls[call].outputs) {
      Program::Value& value = program.values[id];
      if (value.kind != Program::ValueKind::kResult) continue;
      const Lifetime& lifetime = lifetimes[id];
      if (!IsStatic(value.shape)) {
        value.must_copy = lifetime.last_read >= NextRunOfRequest(program, call);
        continue;
      }
      const uint64_t bytes = TensorBytes(value.type, value.shape);
      size_t buffer = 0;
      while (buffer < free_from.size() &&
             (free_from[buffer] > call || program.buffer_bytes[buffer] != bytes)) {
        ++buffer;
      }
      if (buffer == free_from.size()) {
        free_from.push_back(0);
        program.buffer_bytes.push_back(bytes);
      }
      free_from[buffer] = lifetime.last_read + 1;
      value.kind = Program::ValueKind::kBuffer;
      value.index = buffer;
    }
  }
}

}  // namespace tandem

// Speed of the matrix multiplication kernels over packed weights, by layout, rows and instruction
// set, each on one thread and on all. Rates: bytes of packed weights per second, and multiply-adds.
//
// The weights of a run exceed the caches, as those of a model do: several matrices in turn.

#include "kernels/kernels.h"

#include <benchmark/benchmark.h>

#include <thread>

#include "tests/support/random_matrix.h"

namespace tandem {
namespace {

constexpr uint64_t kOutputs = 1536;
constexpr uint64_t kInputs = 1536;
constexpr uint64_t kAllBytes = uint64_t{160} << 20;  // of the matrices together

const std::vector<PackedMatrix>& Weights(DataType type) {
  static std::map<DataType, std::vector<PackedMatrix>> all;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::vector<PackedMatrix>& weights = all[type];
  while (weights.empty() || weights.size() * weights.front().bytes().size() < kAllBytes) {
    const RandomMatrix matrix({.n = kOutputs, .k = kInputs, .type = type},
                              static_cast<unsigned>(weights.size()));
    weights.push_back(PackedMatrix::Pack(matrix.source(), Serial));
  }
  return weights;
}

void BM_MatMul(benchmark::State& state, Isa isa, DataType type, uint64_t m, bool int8) {
  const std::vector<PackedMatrix>& weights = Weights(type);
  const std::vector<float> x(m * kInputs, 0.5F);
  std::vector<float> y(m * kOutputs);
  const auto threads = static_cast<uint64_t>(state.threads());
  const auto thread = static_cast<uint64_t>(state.thread_index());
  const uint64_t panels = weights.front().panels();
  const uint64_t first = panels * thread / threads;
  const uint64_t last = panels * (thread + 1) / threads;
  size_t next = 0;
  QuantizedRows codes(weights.front(), m);
  for (auto _ : state) {
    if (int8) {
      KernelsFor(isa).quantize({x.data(), kInputs}, codes, {0, m}, {0, codes.blocks()});
      KernelsFor(isa).matmul_int8(weights[next], codes, {0, m}, {},
                                  {y.data() + first * kPanelOutputs, kOutputs}, {first, last});
    } else {
      KernelsFor(isa).matmul(weights[next], x.data(), m, {},
                             {y.data() + first * kPanelOutputs, kOutputs}, {first, last});
    }
    next = (next + 1) % weights.size();
  }
  // Iterations are counted of all threads together, each of which does its share of one.
  const auto share = static_cast<double>(last - first) / static_cast<double>(panels);
  const auto rate = [&](double amount) {
    return benchmark::Counter(amount * share, benchmark::Counter::kAvgThreadsRate |
                                                  benchmark::Counter::kIsIterationInvariant);
  };
  state.counters["weights_bytes"] = rate(static_cast<double>(weights.front().bytes().size()));
  state.counters["macs"] = rate(static_cast<double>(m * kOutputs * kInputs));
}

void RegisterAll() {
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (Isa isa : SupportedIsas()) {
    for (DataType type :
         {DataType::kFloat32, DataType::kFloat16, DataType::kInt8, DataType::kInt4}) {
      for (uint64_t m : {1, 4, 8, 128}) {
        for (bool int8 : {false, true}) {
          if (int8 && IsFloat(type)) continue;
          const std::string name = Concat("MatMul/", Name(isa), "/", Name(type),
                                          "/activations:", int8 ? "int8" : "f32", "/rows:", m);
          benchmark::RegisterBenchmark(
              name.c_str(), [=](benchmark::State& state) { BM_MatMul(state, isa, type, m, int8); })
              ->ThreadRange(1, threads)
              ->UseRealTime()
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  tandem::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
}

// What the machine can do at most, with one thread and with one for each core: multiply-adds of f32
// and of 8-bit integers with all operands in registers (`macs`), and bytes read from memory
// (`bytes`). Rates are those of all threads together.

#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/strings.h"

namespace tandem {
namespace {

// Independent sums: more than a CPU has in flight (latency times throughput of the instruction).
constexpr int kSums = 10;
constexpr int kRepeats = 4096;
// Of all threads together: far more than the caches hold.
constexpr size_t kReadBytes = size_t{1} << 30;

// Defines `name`, compiled for `isa`: adds to each of kSums sums in turn, kRepeats times. `add` is
// an expression of `sum`. A function template would not be compiled for another instruction set.
#define TANDEM_PEAK(name, isa, zero, add)                \
  [[gnu::target(isa)]] void name() {                     \
    const auto start = (zero);                           \
    std::remove_const_t<decltype(start)> sums[kSums];    \
    for (auto& sum : sums) sum = start;                  \
    for (int repeat = 0; repeat < kRepeats; ++repeat) {  \
      _Pragma("GCC unroll 10") for (auto& sum : sums) {  \
        sum = (add);                                     \
      }                                                  \
    }                                                    \
    for (auto sum : sums) benchmark::DoNotOptimize(sum); \
  }

TANDEM_PEAK(F32Avx2, "avx2,fma", _mm256_setzero_ps(),
            _mm256_fmadd_ps(_mm256_set1_ps(0.5F), _mm256_set1_ps(0.25F), sum))
TANDEM_PEAK(F32Avx512, "avx512f", _mm512_setzero_ps(),
            _mm512_fmadd_ps(_mm512_set1_ps(0.5F), _mm512_set1_ps(0.25F), sum))
TANDEM_PEAK(Int8AvxVnni, "avx2,avxvnni", _mm256_setzero_si256(),
            _mm256_dpbusd_avx_epi32(sum, _mm256_set1_epi8(3), _mm256_set1_epi8(5)))
TANDEM_PEAK(Int8Avx512Vnni, "avx512f,avx512vnni", _mm512_setzero_si512(),
            _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(3), _mm512_set1_epi8(5)))
// Without VNNI a dot product takes three instructions. Its products must depend on the sum, else
// the compiler computes them once.
TANDEM_PEAK(Int8Avx2, "avx2", _mm256_setzero_si256(),
            _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(sum, _mm256_set1_epi8(5)),
                                                    _mm256_set1_epi16(1))))

#undef TANDEM_PEAK

// Reads all of `memory`.
[[gnu::target("avx2")]] void Read(const std::vector<char>& memory) {
  __m256i sums[4] = {};
  const auto* at = reinterpret_cast<const __m256i*>(memory.data());
  const size_t vectors = memory.size() / sizeof(__m256i);
  for (size_t first = 0; first + 4 <= vectors; first += 4) {
    for (size_t i = 0; i < 4; ++i) {
      sums[i] = _mm256_xor_si256(sums[i], _mm256_loadu_si256(at + first + i));
    }
  }
  for (__m256i sum : sums) benchmark::DoNotOptimize(sum);
}

void BM_Read(benchmark::State& state) {
  const std::vector<char> memory(kReadBytes / static_cast<size_t>(state.threads()), 1);
  for (auto _ : state) Read(memory);
  state.counters["bytes"] = benchmark::Counter(
      static_cast<double>(memory.size()),
      benchmark::Counter::kAvgThreadsRate | benchmark::Counter::kIsIterationInvariant);
}

// `macs` of one instruction sequence.
void BM_Peak(benchmark::State& state, void (*run)(), int macs) {
  for (auto _ : state) run();
  state.counters["macs"] = benchmark::Counter(
      static_cast<double>(macs) * kSums * kRepeats,
      benchmark::Counter::kAvgThreadsRate | benchmark::Counter::kIsIterationInvariant);
}

template <typename Run>
void Register(bool supported, const std::string& name, Run run) {
  if (!supported) return;
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  benchmark::RegisterBenchmark(Concat("Peak/", name).c_str(), run)
      ->ThreadRange(1, threads)
      ->UseRealTime();
}

void RegisterPeak(bool supported, const std::string& name, void (*run)(), int macs) {
  Register(supported, name, [=](benchmark::State& state) { BM_Peak(state, run, macs); });
}

[[maybe_unused]] const bool kRegistered = [] {
  const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0;
  RegisterPeak(avx2, "f32/avx2", F32Avx2, 8);
  RegisterPeak(avx512, "f32/avx512", F32Avx512, 16);
  RegisterPeak(avx2, "int8/avx2", Int8Avx2, 32);
  RegisterPeak(__builtin_cpu_supports("avxvnni") != 0, "int8/avx_vnni", Int8AvxVnni, 32);
  RegisterPeak(__builtin_cpu_supports("avx512vnni") != 0, "int8/avx512_vnni", Int8Avx512Vnni, 64);
  Register(avx2, "read", BM_Read);
  return true;
}();

}  // namespace
}  // namespace tandem

#pragma once

#include "kernels/tiles.h"

namespace tandem {
namespace {

// AMX. The compiler's intrinsics would take the number of a tile as text only, of which a template
// has none, and GCC 12's do not say that they read and write memory.
struct AmxUnit {
  static void Configure(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
  static void Release() { asm volatile("tilerelease"); }

  template <int kTile>
  static void Zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  static void Load(const void* from, uint64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  static void Store(void* to, uint64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kSums, int kA, int kB>
  static void Dot() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kA), "i"(kB));
  }
};

}  // namespace
}  // namespace tandem

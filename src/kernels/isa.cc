#include "kernels/isa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/strings.h"

namespace tandem {
namespace {

constexpr std::array kAll{Isa::kPortable, Isa::kAvx2,       Isa::kAvxVnni,
                          Isa::kAvx512,   Isa::kAvx512Vnni, Isa::kAmx};

// Linux lets a process use the registers of tiles when it asks, for all its threads. A kernel or a
// container that does not is as good as a CPU without them.
bool GetTiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  static const bool got = ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return got;
}

bool IsSupported(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case Isa::kAvxVnni:
      return IsSupported(Isa::kAvx2) && __builtin_cpu_supports("avxvnni");
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case Isa::kAvx512Vnni:
      return IsSupported(Isa::kAvx512) && __builtin_cpu_supports("avx512vnni");
    case Isa::kAmx:
      return IsSupported(Isa::kAvx512Vnni) && __builtin_cpu_supports("amx-tile") &&
             __builtin_cpu_supports("amx-int8") && GetTiles();
  }
  return false;
}

Isa ChooseIsa(const char* forced) {
  const std::vector<Isa> supported = SupportedIsas();
  if (forced == nullptr || *forced == '\0') return supported.back();
  for (Isa isa : kAll) {
    if (Name(isa) != forced) continue;
    if (IsSupported(isa)) return isa;
    throw Error(ErrorCode::kInvalidArgument,
                Concat("TANDEM_ISA=", forced, ": this machine lacks it; its best is ",
                       Name(supported.back())));
  }
  throw Error(ErrorCode::kInvalidArgument,
              Concat("TANDEM_ISA=", forced,
                     ": expected portable, avx2, avx_vnni, avx512, avx512_vnni or amx"));
}

}  // namespace

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvxVnni:
      return "avx_vnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512_vnni";
    case Isa::kAmx:
      return "amx";
  }
  return "";
}

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> supported;
  for (Isa isa : kAll) {
    if (IsSupported(isa)) supported.push_back(isa);
  }
  return supported;
}

Isa ActiveIsa() {
  static const Isa active = ChooseIsa(std::getenv("TANDEM_ISA"));
  return active;
}

}  // namespace tandem

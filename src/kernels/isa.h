#pragma once

#include <string_view>
#include <vector>

namespace tandem {

// Instruction sets for which the kernels are compiled; the best that CPU and operating system
// have is chosen at run time. A later one is better where a CPU has both; that does not mean that
// it has both.
enum class Isa {
  kPortable,    // any x86-64
  kAvx2,        // AVX2, FMA, F16C
  kAvxVnni,     // the same and AVX-VNNI
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Vnni,  // the same and AVX512_VNNI
  kAmx,         // the same, AMX-TILE and AMX-INT8
};

std::string_view Name(Isa isa);

// The instruction sets of this machine, from kPortable to the best. Where the CPU has AMX, Linux is
// asked to let this process use it.
std::vector<Isa> SupportedIsas();

// The one that the kernels use: the best, or what the environment variable TANDEM_ISA names
// (portable, avx2, avx_vnni, avx512, avx512_vnni, amx). Throws Error(kInvalidArgument) when it
// names an unknown one or one that this machine lacks. Read once.
Isa ActiveIsa();

}  // namespace tandem

#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace tandem {

// Kernels under their name.
struct TestedKernels {
  std::string name;
  const Kernels* kernels;

  friend void PrintTo(const TestedKernels& tested, std::ostream* out) { *out << tested.name; }
};

// Those of SupportedIsas(), and stand-ins for instruction sets that few machines have: the same
// code, with the instructions in question replaced by what this CPU has.
std::vector<TestedKernels> AllKernels();

// The code of AvxVnniKernels() with the same dot product in its encoding of AVX-512 VNNI.
const Kernels& AvxVnniStandIn();

// The code of AmxKernels() over EmulatedUnit.
const Kernels& AmxStandIn();

}  // namespace tandem

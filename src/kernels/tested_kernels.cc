#include "kernels/tested_kernels.h"

#include <algorithm>

namespace tandem {

std::vector<TestedKernels> AllKernels() {
  std::vector<TestedKernels> all;
  const std::vector<Isa> isas = SupportedIsas();
  for (Isa isa : isas) all.push_back({std::string(Name(isa)), &KernelsFor(isa)});
  if (std::find(isas.begin(), isas.end(), Isa::kAvx512Vnni) != isas.end()) {
    all.push_back({"avx_vnni_stand_in", &AvxVnniStandIn()});
    all.push_back({"amx_stand_in", &AmxStandIn()});
  }
  return all;
}

}  // namespace tandem

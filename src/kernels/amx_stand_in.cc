// AMX without AMX: the code of amx.cc over a unit of tiles in plain C++. This file is compiled with
// the flags of AVX-512 VNNI.

#include "kernels/emulated_unit.h"
#include "kernels/matmul_tiles_impl.h"
#include "kernels/tested_kernels.h"
#include "kernels/vector_avx512.h"

namespace tandem {

const Kernels& AmxStandIn() {
  return kTileKernels<Zmm, EmulatedUnit>;
}

}  // namespace tandem

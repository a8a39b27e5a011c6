// The kernels for AVX-512 with VNNI and AMX: this file is compiled with the flags of the former.

#include "kernels/amx_unit.h"
#include "kernels/matmul_tiles_impl.h"
#include "kernels/vector_avx512.h"

namespace tandem {

const Kernels& AmxKernels() {
  return kTileKernels<Zmm, AmxUnit>;
}

}  // namespace tandem

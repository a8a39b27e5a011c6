// The kernels for AVX-512 with VNNI: this file is compiled with the flags of the instruction set.

#include "kernels/kernels_impl.h"
#include "kernels/vector_avx512.h"

namespace tandem {

const Kernels& Avx512VnniKernels() {
  return kKernels<Zmm>;
}

}  // namespace tandem

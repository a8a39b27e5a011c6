// The kernels for AVX-512: this file is compiled with the flags of the instruction set.

#include "kernels/kernels_impl.h"
#include "kernels/vector_avx512.h"

namespace tandem {

const Kernels& Avx512Kernels() {
  return kKernels<Zmm>;
}

}  // namespace tandem

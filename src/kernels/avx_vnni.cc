// The kernels for AVX2 with AVX-VNNI: this file is compiled with the flags of the instruction set.

#include "kernels/kernels_impl.h"
#include "kernels/vector_avx2.h"

namespace tandem {

const Kernels& AvxVnniKernels() {
  return kKernels<Ymm2>;
}

}  // namespace tandem

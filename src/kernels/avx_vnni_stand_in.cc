// AVX-VNNI without AVX-VNNI: this file is compiled with the flags of AVX-512 VNNI, hence the dot
// product of vector_avx2.h becomes the instruction of that.

#include "kernels/kernels_impl.h"
#include "kernels/tested_kernels.h"
#include "kernels/vector_avx2.h"

namespace tandem {

const Kernels& AvxVnniStandIn() {
  return kKernels<Ymm2>;
}

}  // namespace tandem

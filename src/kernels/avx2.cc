// The kernels for AVX2: this file is compiled with the flags of the instruction set.

#include "kernels/attention_impl.h"
#include "kernels/kernels_isa.h"
#include "kernels/matmul_impl.h"
#include "kernels/matmul_int8_impl.h"
#include "kernels/row_ops_impl.h"
#include "kernels/vector_avx2.h"

namespace tandem {

const Kernels& Avx2Kernels() {
  static constexpr Kernels kKernels{&MatMul<Ymm2>,    &Quantize<Ymm2>, &MatMulInt8<Ymm2>,
                                    &Attention<Ymm2>, &RmsNorm<Ymm2>,  &SiluGate<Ymm2>,
                                    &Add<Ymm2>};
  return kKernels;
}

}  // namespace tandem

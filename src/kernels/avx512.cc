// The kernels for AVX-512: this file is compiled with the flags of the instruction set.

#include "kernels/attention_impl.h"
#include "kernels/kernels_isa.h"
#include "kernels/matmul_impl.h"
#include "kernels/matmul_int8_impl.h"
#include "kernels/row_ops_impl.h"
#include "kernels/vector_avx512.h"

namespace tandem {

const Kernels& Avx512Kernels() {
  static constexpr Kernels kKernels{&MatMul<Zmm>,    &Quantize<Zmm>, &MatMulInt8<Zmm>,
                                    &Attention<Zmm>, &RmsNorm<Zmm>,  &SiluGate<Zmm>,
                                    &Add<Zmm>};
  return kKernels;
}

}  // namespace tandem

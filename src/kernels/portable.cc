// The kernels for any x86-64: this file is compiled with the flags of the instruction set.

#include "kernels/attention_impl.h"
#include "kernels/kernels_isa.h"
#include "kernels/matmul_impl.h"
#include "kernels/matmul_int8_impl.h"
#include "kernels/row_ops_impl.h"
#include "kernels/vector_portable.h"

namespace tandem {

const Kernels& PortableKernels() {
  static constexpr Kernels kKernels{&MatMul<Floats>,    &Quantize<Floats>, &MatMulInt8<Floats>,
                                    &Attention<Floats>, &RmsNorm<Floats>,  &SiluGate<Floats>,
                                    &Add<Floats>};
  return kKernels;
}

}  // namespace tandem

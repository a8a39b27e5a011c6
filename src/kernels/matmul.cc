#include "kernels/matmul.h"

#include "kernels/matmul_isa.h"

namespace tandem {

MatMulKernel MatMulKernelFor(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return MatMulAvx512;
    case Isa::kAvx2:
      return MatMulAvx2;
    case Isa::kPortable:
      break;
  }
  return MatMulPortable;
}

}  // namespace tandem

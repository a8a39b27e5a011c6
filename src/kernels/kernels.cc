#include "kernels/kernels.h"

#include "kernels/kernels_isa.h"

namespace tandem {

const Kernels& KernelsFor(Isa isa) {
  switch (isa) {
    case Isa::kAmx:
      return AmxKernels();
    case Isa::kAvx512Vnni:
      return Avx512VnniKernels();
    case Isa::kAvx512:
      return Avx512Kernels();
    case Isa::kAvxVnni:
      return AvxVnniKernels();
    case Isa::kAvx2:
      return Avx2Kernels();
    case Isa::kPortable:
      break;
  }
  return PortableKernels();
}

const Kernels& ActiveKernels() {
  static const Kernels& kernels = KernelsFor(ActiveIsa());
  return kernels;
}

}  // namespace tandem

// The kernels for any x86-64: this file is compiled with the flags of the instruction set.

#include "kernels/kernels_impl.h"
#include "kernels/vector_portable.h"

namespace tandem {

const Kernels& PortableKernels() {
  return kKernels<Floats>;
}

}  // namespace tandem

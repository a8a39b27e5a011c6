#pragma once

#include "kernels/kernels.h"

namespace tandem {

// One translation unit each, compiled with the flags of its instruction set.
const Kernels& PortableKernels();
const Kernels& Avx2Kernels();
const Kernels& AvxVnniKernels();
const Kernels& Avx512Kernels();
const Kernels& Avx512VnniKernels();
const Kernels& AmxKernels();

}  // namespace tandem

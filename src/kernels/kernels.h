#pragma once

#include "kernels/attention.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"

namespace tandem {

// The kernels of one instruction set.
struct Kernels {
  MatMulKernel matmul;
  AttentionKernel attention;
};

// Those compiled for `isa`, which the CPU must have.
const Kernels& KernelsFor(Isa isa);

}  // namespace tandem

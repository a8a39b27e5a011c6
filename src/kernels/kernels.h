#pragma once

#include "kernels/attention.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "kernels/matmul_int8.h"
#include "kernels/row_ops.h"

namespace tandem {

// The kernels of one instruction set.
struct Kernels {
  MatMulKernel matmul;
  QuantizeKernel quantize;
  MatMulInt8Kernel matmul_int8;
  AttentionKernel attention;
  RmsNormKernel rms_norm;
  GateKernel gate;
  AddKernel add;
  RotateKernel rotate;
};

// Those compiled for `isa`, which the CPU must have.
const Kernels& KernelsFor(Isa isa);

}  // namespace tandem

#pragma once

#include <algorithm>

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
  KeyPanelsKernel key_panels;
  ValuePanelsKernel value_panels;
  RmsNormKernel rms_norm;
  GateKernel gate;
  AddKernel add;
  RotateKernel rotate;
  // Quantized rows are multiplied so many at a time, or fewer if their codes take more bytes: they
  // and what is made of them stay in the cache while panel by panel passes.
  uint64_t most_rows;
  uint64_t most_codes;

  // For rows of k inputs; a multiple of what fills the tiles of any kernel.
  uint64_t RowsAtATime(uint64_t k) const {
    constexpr uint64_t kStep = 48;
    return std::clamp(most_codes / k / kStep * kStep, kStep, most_rows);
  }
};

// Those compiled for `isa`, which the CPU must have.
const Kernels& KernelsFor(Isa isa);

// Those of ActiveIsa().
const Kernels& ActiveKernels();

}  // namespace tandem

#pragma once

// All kernels over one vector of kernels/vector.h: what a translation unit of an instruction set
// has.

#include "kernels/attention_impl.h"
#include "kernels/kernels_isa.h"
#include "kernels/matmul_impl.h"
#include "kernels/matmul_int8_impl.h"
#include "kernels/row_ops_impl.h"

namespace tandem {
namespace {

constexpr uint64_t kMostRows = 96;
constexpr uint64_t kMostCodes = 192 * 1024;  // a part of an L2 cache

template <typename V>
constexpr Kernels kKernels{&MatMul<V>,    &Quantize<V>,    &MatMulInt8<V>, &Attention<V>,
                           &KeyPanels<V>, &ValuePanels<V>, &RmsNorm<V>,    &Gate<V>,
                           &Add<V>,       &Rotate<V>,      kMostRows,      kMostCodes};

}  // namespace
}  // namespace tandem

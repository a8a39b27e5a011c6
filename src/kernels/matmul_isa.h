#pragma once

#include "kernels/packed_matrix.h"

namespace tandem {

// One translation unit each, compiled with the flags of its instruction set. Signature of
// MatMulKernel (kernels/matmul.h).
void MatMulPortable(const PackedMatrix& w, const float* x, uint64_t m, float* y, uint64_t first,
                    uint64_t last);
void MatMulAvx2(const PackedMatrix& w, const float* x, uint64_t m, float* y, uint64_t first,
                uint64_t last);
void MatMulAvx512(const PackedMatrix& w, const float* x, uint64_t m, float* y, uint64_t first,
                  uint64_t last);

}  // namespace tandem

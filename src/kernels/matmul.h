#pragma once

#include <cstdint>

#include "kernels/packed_matrix.h"

namespace tandem {

// y[m][n] = sum over k of x[m][k] * W[n][k], for the outputs n of the panels [first, last) of W.
// `x` is [m][w.k()] and `y` [m][w.n()], both contiguous; arithmetic is in f32, sums in blocks of
// inputs. Calls that write different panels or rows can run at the same time.
using MatMulKernel = void (*)(const PackedMatrix& w, const float* x, uint64_t m, float* y,
                              uint64_t first, uint64_t last);

}  // namespace tandem

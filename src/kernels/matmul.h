#pragma once

#include <cstdint>

#include "kernels/packed_matrix.h"

namespace tandem {

// The numbers from `first` to before `last`.
struct Range {
  uint64_t first = 0;
  uint64_t last = 0;

  uint64_t size() const { return last - first; }
};

// Rows of floats, from row to row `stride` elements.
template <typename T>
struct Rows {
  T* data = nullptr;
  uint64_t stride = 0;

  bool exist() const { return data != nullptr; }
  // Those from an element of a row on; none if there are none.
  Rows From(uint64_t row, uint64_t n) const {
    return exist() ? Rows{data + row * stride + n, stride} : *this;
  }
};

// What a product is added to: none, or rows, perhaps one for all (stride 0).
using Addend = Rows<const float>;
using Outputs = Rows<float>;

// y[m][n] = addend[m][n] + sum over k of x[m][k] * W[n][k], for the outputs n of some panels of W.
// `x` is [m][w.k()], contiguous; the addend and y begin at the first output of the panels and do
// not overlap. Arithmetic is in f32, sums in blocks of inputs. Calls that write different panels or
// rows can run at the same time.
using MatMulKernel = void (*)(const PackedMatrix& w, const float* x, uint64_t m, Addend addend,
                              Outputs y, Range panels);

}  // namespace tandem

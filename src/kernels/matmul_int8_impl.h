#pragma once

// The matrix multiplication with activations in 8 bits, over the vector of kernels/vector.h.
//
// A group of a panel is 16 outputs x 4 inputs of bytes: what one instruction of VNNI multiplies
// with 4 inputs of a row and adds to 16 sums. Groups of 4-bit codes are two of these, in the halves
// of bytes.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/matmul_impl.h"
#include "kernels/matmul_int8.h"

namespace tandem {
namespace {

constexpr uint64_t kDotInputs = 4;
constexpr uint64_t kCachedCodes = 192 * 1024;  // bytes: a part of an L2 cache

template <typename V>
void QuantizeBlock(const float* x, uint64_t inputs, int8_t* codes, float& scale, float& sum) {
  V largest = V::Zero();
  V finite = V::Zero();  // NaN when something is not finite
  for (uint64_t i = 0; i < inputs; i += kPanelOutputs) {
    const V part = LoadPart<V>(x + i, std::min(kPanelOutputs, inputs - i));
    largest = Max(largest, Max(part, V::Zero() - part));
    finite = MulAdd(part, V::Zero(), finite);
  }
  const float most = Largest(largest);
  scale = most / 127 + Sum(finite);
  const V inverse = V::Broadcast(most > 0 ? 127 / most : 0);
  V total = V::Zero();
  for (uint64_t i = 0; i < inputs; i += kPanelOutputs) {
    const uint64_t part = std::min(kPanelOutputs, inputs - i);
    const V rounded = Round(LoadPart<V>(x + i, part) * inverse);
    StorePartI8(rounded, codes + i, part);
    total = total + rounded;
  }
  sum = std::isfinite(scale) ? Sum(total) : 0;  // exact
}

template <typename V>
void Quantize(const float* x, QuantizedRows& to, uint64_t first, uint64_t last) {
  for (uint64_t row = first; row < last; ++row) {
    const float* in = x + row * to.inputs();
    int8_t* codes = to.codes(row);
    for (uint64_t block = 0, at = 0; at < to.inputs(); ++block, at += to.block()) {
      QuantizeBlock<V>(in + at, std::min(to.block(), to.inputs() - at), codes + at,
                       to.scales(row)[block], to.sums(row)[block]);
    }
    std::memset(codes + to.inputs(), 0, to.codes(row + 1) - codes - to.inputs());
  }
}

// One panel times kRows rows of x, from row `row` on. `kHasZeroPoints`: each output has its own;
// else one integer serves all, with which the sums can begin.
template <typename V, Layout kLayout, bool kHasZeroPoints, int kRows>
void Int8Rows(const PackedMatrix& w, uint64_t panel, const QuantizedRows& x, uint64_t row,
              float* y) {
  constexpr uint64_t kInputs = GroupInputs(kLayout);
  const std::byte* group = w.panel(panel);
  const float* scales = w.scales(panel);
  const uint8_t* zero_points = w.zero_points(panel);
  const auto one_zero_point = static_cast<int32_t>(w.zero_point());
  const int8_t* codes[kRows];
  V total[kRows];
  for (int r = 0; r < kRows; ++r) {
    codes[r] = x.codes(row + static_cast<uint64_t>(r));
    total[r] = V::Zero();
  }
  const auto four = [&](int r, uint64_t at) {
    int32_t inputs = 0;
    std::memcpy(&inputs, codes[r] + at, sizeof(inputs));
    return inputs;
  };
  for (uint64_t begin = 0, block = 0; begin < w.k(); begin += x.block(), ++block) {
    const uint64_t end = std::min(w.k(), begin + x.block());
    typename V::Ints sum[kRows];
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kHasZeroPoints) {
        sum[r] = V::BroadcastInt(0);
      } else {
        const float codes_sum = x.sums(row + static_cast<uint64_t>(r))[block];
        sum[r] = V::BroadcastInt(-one_zero_point * static_cast<int32_t>(codes_sum));
      }
    }
    for (uint64_t at = begin; at < end; at += kInputs, group += GroupBytes(kLayout)) {
      const typename V::Codes bytes = V::LoadCodes(group);
      if constexpr (kLayout == Layout::kU4) {
        const typename V::Codes low = V::LowHalves(bytes);
        const typename V::Codes high = V::HighHalves(bytes);
        for (int r = 0; r < kRows; ++r) {
          sum[r] = V::DotU4(sum[r], low, four(r, at));
          sum[r] = V::DotU4(sum[r], high, four(r, at + kDotInputs));
        }
      } else {
        for (int r = 0; r < kRows; ++r) sum[r] = V::DotU8(sum[r], bytes, four(r, at));
      }
    }
    const uint64_t weight_block = begin / w.block_k();
    const V scale = V::Load(scales + weight_block * kPanelOutputs);
    for (int r = 0; r < kRows; ++r) {
      const auto at = row + static_cast<uint64_t>(r);
      V value = V::ToFloats(sum[r]);
      if constexpr (kHasZeroPoints) {
        value =
            value - ZeroPoints<V>(w, zero_points, weight_block) * V::Broadcast(x.sums(at)[block]);
      }
      total[r] = MulAdd(value, scale * V::Broadcast(x.scales(at)[block]), total[r]);
    }
  }
  const uint64_t n = panel * kPanelOutputs;
  const uint64_t columns = std::min(kPanelOutputs, w.n() - n);
  for (int r = 0; r < kRows; ++r) {
    StorePart(total[r], y + (row + static_cast<uint64_t>(r)) * w.n() + n, columns);
  }
}

template <typename V, Layout kLayout, bool kHasZeroPoints>
using Int8RowsFunction = decltype(&Int8Rows<V, kLayout, kHasZeroPoints, 1>);

// Int8Rows of 1 ... V::kInt8Rows rows, by number of rows less one.
template <typename V, Layout kLayout, bool kHasZeroPoints, size_t... kIndex>
constexpr std::array<Int8RowsFunction<V, kLayout, kHasZeroPoints>, sizeof...(kIndex)> Int8Tiles(
    std::index_sequence<kIndex...>) {
  return {&Int8Rows<V, kLayout, kHasZeroPoints, static_cast<int>(kIndex) + 1>...};
}

template <typename V, Layout kLayout, bool kHasZeroPoints>
void MatMulInt8Layout(const PackedMatrix& w, const QuantizedRows& x, float* y, uint64_t first,
                      uint64_t last) {
  static constexpr auto kTiles =
      Int8Tiles<V, kLayout, kHasZeroPoints>(std::make_index_sequence<V::kInt8Rows>());
  // All panels read the rows' codes: as many rows at a time as stay in the cache meanwhile.
  const uint64_t tiles = std::max<uint64_t>(1, kCachedCodes / (x.inputs() * V::kInt8Rows));
  const uint64_t block = tiles * V::kInt8Rows;
  for (uint64_t begin = 0; begin < x.rows(); begin += block) {
    const uint64_t end = std::min(x.rows(), begin + block);
    for (uint64_t panel = first; panel < last; ++panel) {
      for (uint64_t row = begin; row < end; row += V::kInt8Rows) {
        const uint64_t rows = std::min<uint64_t>(V::kInt8Rows, end - row);
        kTiles[rows - 1](w, panel, x, row, y);
      }
    }
  }
}

template <typename V>
void MatMulInt8(const PackedMatrix& w, const QuantizedRows& x, float* y, uint64_t first,
                uint64_t last) {
  const bool has_zero_points =
      w.zero_points(0) != nullptr || w.zero_point() != std::nearbyint(w.zero_point());
  if (w.layout() == Layout::kU4) {
    return has_zero_points ? MatMulInt8Layout<V, Layout::kU4, true>(w, x, y, first, last)
                           : MatMulInt8Layout<V, Layout::kU4, false>(w, x, y, first, last);
  }
  return has_zero_points ? MatMulInt8Layout<V, Layout::kU8, true>(w, x, y, first, last)
                         : MatMulInt8Layout<V, Layout::kU8, false>(w, x, y, first, last);
}

}  // namespace
}  // namespace tandem

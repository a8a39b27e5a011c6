#pragma once

// The matrix multiplication with activations in 8 bits over tiles (kernels/tiles.h), for as many
// rows as a tile has or more.
//
// A tile of sums is 16 rows times a panel's 16 outputs over the inputs of one block: blocks have
// scales of their own. The groups of a panel are rows of a tile as they are, once 4-bit codes are
// bytes and all codes signed. Less the middle of their range, that is, which is the zero point of
// most models: then nothing is left to subtract.

#include <memory>

#include "kernels/kernels_impl.h"
#include "kernels/tiles.h"

namespace tandem {
namespace {

constexpr uint64_t kSumRows = 16;
// Bytes of rows that all panels read: half of the L2 cache of CPUs with tiles, since the codes of a
// panel are made signed anew for each part of the rows.
constexpr uint64_t kTileCachedCodes = 1024 * 1024;

// Signed codes of 16 outputs x 4 inputs: a row of a tile.
struct alignas(64) SignedGroup {
  int8_t codes[kPanelOutputs * kDotInputs];
};

template <Layout kLayout>
constexpr int kMiddle = kLayout == Layout::kU4 ? 8 : 128;

// The codes of a panel less kMiddle; zeros up to the end of `out`.
template <Layout kLayout>
void MakeSigned(const PackedMatrix& w, uint64_t panel, SignedGroup* out, SignedGroup* end) {
  const auto* codes = reinterpret_cast<const uint8_t*>(w.panel(panel));
  for (uint64_t at = 0; at < w.k(); at += GroupInputs(kLayout), codes += GroupBytes(kLayout)) {
    SignedGroup& low = *out++;
    if constexpr (kLayout == Layout::kU4) {
      SignedGroup& high = *out++;
      for (uint64_t i = 0; i < GroupBytes(kLayout); ++i) {
        low.codes[i] = static_cast<int8_t>((codes[i] & 0xF) - kMiddle<kLayout>);
        high.codes[i] = static_cast<int8_t>((codes[i] >> 4) - kMiddle<kLayout>);
      }
    } else {
      for (uint64_t i = 0; i < GroupBytes(kLayout); ++i) {
        low.codes[i] = static_cast<int8_t>(codes[i] - kMiddle<kLayout>);
      }
    }
  }
  std::fill(out, end, SignedGroup{});
}

// Two sets of tiles, for neighbouring blocks, hide the latency of each other.
constexpr int SumsTile(int set) {
  return set;
}
constexpr int RowsTile(int set) {
  return 2 + set;
}
constexpr int CodesTile(int set) {
  return 4 + set;
}

inline TileConfig ConfigFor(uint64_t block_inputs) {
  TileConfig config;
  for (int set : {0, 1}) {
    config.Shape(SumsTile(set), kSumRows, kPanelOutputs * sizeof(int32_t));
    config.Shape(RowsTile(set), kSumRows, block_inputs);
    config.Shape(CodesTile(set), block_inputs / kDotInputs, sizeof(SignedGroup));
  }
  return config;
}

// sums [16 rows][16 outputs] of one block.
template <typename Unit, int kSet>
void DotBlock(const int8_t* rows, uint64_t row_stride, const SignedGroup* codes, int32_t* sums) {
  Unit::template Zero<SumsTile(kSet)>();
  Unit::template Load<RowsTile(kSet)>(rows, row_stride);
  Unit::template Load<CodesTile(kSet)>(codes, sizeof(SignedGroup));
  Unit::template Dot<SumsTile(kSet), RowsTile(kSet), CodesTile(kSet)>();
  Unit::template Store<SumsTile(kSet)>(sums, kPanelOutputs * sizeof(int32_t));
}

// One panel, of which `codes` are the signed codes, times 16 rows of x from `row` on.
template <typename V, typename Unit, Layout kLayout, bool kHasZeroPoints>
void SixteenRows(const PackedMatrix& w, uint64_t panel, const SignedGroup* codes,
                 const QuantizedRows& x, uint64_t row, float* y) {
  alignas(64) int32_t sums[2][kSumRows * kPanelOutputs];
  const float* scales = w.scales(panel);
  const uint8_t* zero_points = w.zero_points(panel);
  const int8_t* rows = x.codes(row);
  const uint64_t blocks = x.blocks();
  const uint64_t inputs = x.block();

  V total[kSumRows];
  for (V& one : total) one = V::Zero();
  // A block is scaled while the next one is under way.
  for (uint64_t block = 0; block <= blocks; ++block) {
    if (block < blocks) {
      const int8_t* part = rows + block * inputs;
      const SignedGroup* part_codes = codes + block * inputs / kDotInputs;
      if (block % 2 == 0) {
        DotBlock<Unit, 0>(part, x.stride(), part_codes, sums[0]);
      } else {
        DotBlock<Unit, 1>(part, x.stride(), part_codes, sums[1]);
      }
    }
    if (block == 0) continue;
    const uint64_t done = block - 1;
    const uint64_t weight_block = done * inputs / w.block_k();
    const V scale = V::Load(scales + weight_block * kPanelOutputs);
    V zero_point = V::Zero();
    if constexpr (kHasZeroPoints) {
      zero_point = ZeroPoints<V>(w, zero_points, weight_block) - V::Broadcast(kMiddle<kLayout>);
    }
    const float* x_scales = x.scales(done) + row;
    const int32_t* x_sums = x.offsets(done) + row;
    for (uint64_t r = 0; r < kSumRows; ++r) {
      V value = V::ToFloats(V::LoadInts(sums[done % 2] + r * kPanelOutputs));
      if constexpr (kHasZeroPoints) {
        value = value - zero_point * V::Broadcast(static_cast<float>(x_sums[r]));
      }
      total[r] = MulAdd(value, scale * V::Broadcast(x_scales[r]), total[r]);
    }
  }
  const uint64_t n = panel * kPanelOutputs;
  const uint64_t columns = std::min(kPanelOutputs, w.n() - n);
  for (uint64_t r = 0; r < kSumRows; ++r) StorePart(total[r], y + (row + r) * w.n() + n, columns);
}

template <typename V, typename Unit, Layout kLayout, bool kHasZeroPoints>
void MatMulTilesLayout(const PackedMatrix& w, const QuantizedRows& x, float* y, uint64_t first,
                       uint64_t last) {
  const TileScope<Unit> scope(ConfigFor(x.block()));
  const uint64_t groups = AlignUp(w.k(), x.block()) / kDotInputs;
  const auto codes = std::make_unique_for_overwrite<SignedGroup[]>(groups);
  const uint64_t part =
      std::max<uint64_t>(1, kTileCachedCodes / (x.inputs() * kSumRows)) * kSumRows;
  for (uint64_t begin = 0; begin < x.rows(); begin += part) {
    const uint64_t end = std::min(x.rows(), begin + part);
    for (uint64_t panel = first; panel < last; ++panel) {
      MakeSigned<kLayout>(w, panel, codes.get(), codes.get() + groups);
      for (uint64_t row = begin; row < end; row += kSumRows) {
        // The last 16 rows may be some of those before once more.
        const uint64_t from = std::min(row, x.rows() - kSumRows);
        SixteenRows<V, Unit, kLayout, kHasZeroPoints>(w, panel, codes.get(), x, from, y);
      }
    }
  }
}

template <typename V, typename Unit, Layout kLayout>
void MatMulTilesLayout(const PackedMatrix& w, const QuantizedRows& x, float* y, uint64_t first,
                       uint64_t last) {
  if (!x.zero_point()) {
    MatMulTilesLayout<V, Unit, kLayout, true>(w, x, y, first, last);
  } else if (*x.zero_point() == kMiddle<kLayout>) {
    MatMulTilesLayout<V, Unit, kLayout, false>(w, x, y, first, last);
  } else {
    MatMulInt8<V>(w, x, y, first, last);  // few models have such a zero point
  }
}

template <typename V, typename Unit>
void MatMulTiles(const PackedMatrix& w, const QuantizedRows& x, float* y, uint64_t first,
                 uint64_t last) {
  if (x.rows() < kSumRows || first == last) return MatMulInt8<V>(w, x, y, first, last);
  if (w.layout() == Layout::kU4) {
    MatMulTilesLayout<V, Unit, Layout::kU4>(w, x, y, first, last);
  } else {
    MatMulTilesLayout<V, Unit, Layout::kU8>(w, x, y, first, last);
  }
}

template <typename V, typename Unit>
constexpr Kernels kTileKernels = [] {
  Kernels kernels = kKernels<V>;
  kernels.matmul_int8 = &MatMulTiles<V, Unit>;
  return kernels;
}();

}  // namespace
}  // namespace tandem

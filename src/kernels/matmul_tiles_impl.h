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
// More than elsewhere, since the codes of a panel are made signed anew each time; CPUs with tiles
// have 2 MiB of L2 cache and more.
constexpr uint64_t kMostTileRows = 768;
constexpr uint64_t kMostTileCodes = 1024 * 1024;

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

// One panel, of which `codes` are the signed codes, times 16 rows of x from `row` on. The addend
// and y begin with these.
template <typename V, typename Unit, Layout kLayout, bool kHasZeroPoints>
void SixteenRows(const PackedMatrix& w, uint64_t panel, const SignedGroup* codes,
                 const QuantizedRows& x, uint64_t row, Addend addend, Outputs y) {
  alignas(64) int32_t sums[2][kSumRows * kPanelOutputs];
  const float* scales = w.scales(panel);
  const uint8_t* zero_points = w.zero_points(panel);
  const int8_t* rows = x.codes(row);
  const uint64_t blocks = x.blocks();
  const uint64_t inputs = x.block();

  const uint64_t columns = ColumnsOf(w, panel);
  V total[kSumRows];
#pragma GCC unroll 16
  for (uint64_t r = 0; r < kSumRows; ++r) total[r] = StartOf<V>(addend, r, 0, columns);
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
#pragma GCC unroll 16
    for (uint64_t r = 0; r < kSumRows; ++r) {
      V value = V::ToFloats(V::LoadInts(sums[done % 2] + r * kPanelOutputs));
      if constexpr (kHasZeroPoints) {
        value = value - zero_point * V::Broadcast(static_cast<float>(x_sums[r]));
      }
      total[r] = MulAdd(value, scale * V::Broadcast(x_scales[r]), total[r]);
    }
  }
#pragma GCC unroll 16
  for (uint64_t r = 0; r < kSumRows; ++r) StorePart(total[r], y.data + r * y.stride, columns);
}

template <typename V, typename Unit, Layout kLayout, bool kHasZeroPoints>
void MatMulTilesLayout(const PackedMatrix& w, const QuantizedRows& x, Range rows, Addend addend,
                       Outputs y, Range panels) {
  const TileScope<Unit> scope(ConfigFor(x.block()));
  const uint64_t groups = AlignUp(w.k(), x.block()) / kDotInputs;
  const auto codes = std::make_unique_for_overwrite<SignedGroup[]>(groups);
  for (uint64_t panel = panels.first; panel < panels.last; ++panel) {
    MakeSigned<kLayout>(w, panel, codes.get(), codes.get() + groups);
    const uint64_t n = (panel - panels.first) * kPanelOutputs;
    for (uint64_t row = rows.first; row < rows.last; row += kSumRows) {
      // The last 16 rows may be some of those before once more.
      const uint64_t from = std::min(row, rows.last - kSumRows);
      SixteenRows<V, Unit, kLayout, kHasZeroPoints>(w, panel, codes.get(), x, from,
                                                    addend.From(from - rows.first, n),
                                                    y.From(from - rows.first, n));
    }
  }
}

template <typename V, typename Unit, Layout kLayout>
void MatMulTilesLayout(const PackedMatrix& w, const QuantizedRows& x, Range rows, Addend addend,
                       Outputs y, Range panels) {
  if (!x.zero_point()) {
    MatMulTilesLayout<V, Unit, kLayout, true>(w, x, rows, addend, y, panels);
  } else if (*x.zero_point() == kMiddle<kLayout>) {
    MatMulTilesLayout<V, Unit, kLayout, false>(w, x, rows, addend, y, panels);
  } else {
    MatMulInt8<V>(w, x, rows, addend, y, panels);  // few models have such a zero point
  }
}

template <typename V, typename Unit>
void MatMulTiles(const PackedMatrix& w, const QuantizedRows& x, Range rows, Addend addend,
                 Outputs y, Range panels) {
  if (rows.size() < kSumRows || panels.size() == 0)
    return MatMulInt8<V>(w, x, rows, addend, y, panels);
  if (w.layout() == Layout::kU4) {
    MatMulTilesLayout<V, Unit, Layout::kU4>(w, x, rows, addend, y, panels);
  } else {
    MatMulTilesLayout<V, Unit, Layout::kU8>(w, x, rows, addend, y, panels);
  }
}

template <typename V, typename Unit>
constexpr Kernels kTileKernels = [] {
  Kernels kernels = kKernels<V>;
  kernels.matmul_int8 = &MatMulTiles<V, Unit>;
  kernels.most_rows = kMostTileRows;
  kernels.most_codes = kMostTileCodes;
  return kernels;
}();

}  // namespace
}  // namespace tandem

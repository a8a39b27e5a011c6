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
#include <limits>
#include <utility>

#include "kernels/matmul_impl.h"
#include "kernels/matmul_int8.h"

namespace tandem {
namespace {

constexpr uint64_t kDotInputs = 4;
constexpr uint64_t kWholeBlock = 32;  // inputs of most blocks

constexpr uint64_t kQuantizedTogether = 4;  // blocks: their sums and largest are found together

// Where blocks to quantize are, and what becomes of them, each a step behind the one before.
struct BlocksInMemory {
  const float* x;
  uint64_t x_step;
  int8_t* codes;
  uint64_t codes_step;
  float* scales;
  int32_t* offsets;
  uint64_t step;  // of scales and offsets
};

// Quantizes kBlocks blocks of `inputs` inputs, or of kInputs if that is not 0.
template <typename V, uint64_t kBlocks, uint64_t kInputs>
void QuantizeBlocks(const BlocksInMemory& at, uint64_t inputs, int32_t offset_factor) {
  if constexpr (kInputs > 0) inputs = kInputs;
  std::array<V, kQuantizedTogether> largest;
  std::array<V, kQuantizedTogether> totals;
#pragma GCC unroll 4
  for (uint64_t b = 0; b < kQuantizedTogether; ++b) {
    largest[b] = V::Zero();
    totals[b] = V::Zero();
  }
#pragma GCC unroll 4
  for (uint64_t b = 0; b < kBlocks; ++b) {
#pragma GCC unroll 2
    for (uint64_t i = 0; i < inputs; i += kPanelOutputs) {
      const V part = LoadPart<V>(at.x + b * at.x_step + i, std::min(kPanelOutputs, inputs - i));
      largest[b] = Max(largest[b], Max(part, V::Zero() - part));
    }
  }
  float most[kQuantizedTogether];
  float sums[kQuantizedTogether];  // of codes: exact
  Largests(largest, most);
#pragma GCC unroll 4
  for (uint64_t b = 0; b < kBlocks; ++b) {
    // What is not finite becomes a NaN, and so does the sum.
    const V inverse = V::Broadcast(most[b] > 0 ? 127 / most[b] : 0);
#pragma GCC unroll 2
    for (uint64_t i = 0; i < inputs; i += kPanelOutputs) {
      const uint64_t part = std::min(kPanelOutputs, inputs - i);
      const V rounded = Round(LoadPart<V>(at.x + b * at.x_step + i, part) * inverse);
      StorePartI8(rounded, at.codes + b * at.codes_step + i, part);
      totals[b] = totals[b] + rounded;
    }
  }
  Sums(totals, sums);
  for (uint64_t b = 0; b < kBlocks; ++b) {
    const bool is_finite = !std::isnan(sums[b]);
    at.scales[b * at.step] = is_finite ? most[b] / 127 : std::numeric_limits<float>::quiet_NaN();
    at.offsets[b * at.step] = is_finite ? offset_factor * static_cast<int32_t>(sums[b]) : 0;
  }
}

// The same for any number of blocks.
template <typename V>
void QuantizeMany(BlocksInMemory at, uint64_t blocks, uint64_t inputs, int32_t offset_factor) {
  while (blocks > 0) {
    const bool is_whole = inputs == kWholeBlock;
    const uint64_t count = is_whole && blocks >= kQuantizedTogether ? kQuantizedTogether : 1;
    if (count > 1) {
      QuantizeBlocks<V, kQuantizedTogether, kWholeBlock>(at, inputs, offset_factor);
    } else {
      QuantizeBlocks<V, 1, 0>(at, inputs, offset_factor);
    }
    at.x += count * at.x_step;
    at.codes += count * at.codes_step;
    at.scales += count * at.step;
    at.offsets += count * at.step;
    blocks -= count;
  }
}

template <typename V>
void Quantize(Rows<const float> x, QuantizedRows& to, Range rows, Range blocks) {
  const int32_t factor = to.zero_point() ? -*to.zero_point() : 1;
  const uint64_t size = to.block();
  const auto place = [&](uint64_t row, uint64_t block) {
    return BlocksInMemory{x.From(row - rows.first, (block - blocks.first) * size).data,
                          size,
                          to.codes(row) + block * size,
                          size,
                          to.scales(block) + row,
                          to.offsets(block) + row,
                          to.rows()};
  };
  const uint64_t whole = std::min(blocks.last, to.inputs() / size);
  if (blocks.size() < kQuantizedTogether) {
    for (uint64_t block = blocks.first; block < whole; ++block) {
      BlocksInMemory column = place(rows.first, block);
      column.x_step = x.stride;
      column.codes_step = to.stride();
      column.step = 1;
      QuantizeMany<V>(column, rows.size(), size, factor);
    }
  } else {
    for (uint64_t row = rows.first; row < rows.last; ++row) {
      QuantizeMany<V>(place(row, blocks.first), whole - blocks.first, size, factor);
    }
  }
  if (blocks.last < to.blocks()) return;
  for (uint64_t row = rows.first; row < rows.last; ++row) {
    if (whole < blocks.last) {
      QuantizeMany<V>(place(row, whole), 1, to.inputs() - whole * size, factor);
    }
    std::memset(to.codes(row) + to.inputs(), 0, to.stride() - to.inputs());
  }
}

// A tile: kRows rows of x, from row `row` on, times kPanels panels, from `panel` on. The addend and
// y begin with it. `kHasZeroPoints`: each output has its own.
template <typename V, Layout kLayout, bool kHasZeroPoints, int kPanels, int kRows>
struct Int8Tile {
  using Codes = V::Codes;
  using Ints = V::Ints;

  // sum += the products of `inputs` inputs whose codes begin at w, a panel every `w_stride`, and x,
  // a row every `x_stride`.
  [[gnu::always_inline]] static void Dot(const std::byte* w, uint64_t w_stride, const int8_t* x,
                                         uint64_t x_stride, uint64_t inputs,
                                         Ints (&sum)[kRows][kPanels]) {
    const auto four = [&](int r, uint64_t at) {
      int32_t result = 0;
      std::memcpy(&result, x + static_cast<uint64_t>(r) * x_stride + at, sizeof(result));
      return result;
    };
    const auto add = [&](const Codes(&codes)[kPanels], uint64_t at) {
      for (int r = 0; r < kRows; ++r) {
        const int32_t x_codes = four(r, at);
        for (int p = 0; p < kPanels; ++p) {
          sum[r][p] = kLayout == Layout::kU4 ? V::DotU4(sum[r][p], codes[p], x_codes)
                                             : V::DotU8(sum[r][p], codes[p], x_codes);
        }
      }
    };
#pragma GCC unroll 8
    for (uint64_t at = 0; at < inputs; at += GroupInputs(kLayout)) {
      const uint64_t group = at / GroupInputs(kLayout) * GroupBytes(kLayout);
      Codes codes[kPanels];
      for (int p = 0; p < kPanels; ++p) codes[p] = V::LoadCodes(w + p * w_stride + group);
      if constexpr (kLayout == Layout::kU4) {
        Codes low[kPanels];
        Codes high[kPanels];
        for (int p = 0; p < kPanels; ++p) {
          low[p] = V::LowHalves(codes[p]);
          high[p] = V::HighHalves(codes[p]);
        }
        add(low, at);
        add(high, at + kDotInputs);
      } else {
        add(codes, at);
      }
    }
  }

  // The same for a block of another size than kWholeBlock, out of line: it takes no registers of
  // those.
  [[gnu::noinline]] static void DotPart(const std::byte* w, uint64_t w_stride, const int8_t* x,
                                        uint64_t x_stride, uint64_t inputs,
                                        Ints (&sum)[kRows][kPanels]) {
    Dot(w, w_stride, x, x_stride, inputs, sum);
  }

  static void Compute(const PackedMatrix& w, uint64_t panel, const QuantizedRows& x, uint64_t row,
                      Addend addend, Outputs y) {
    const uint64_t x_blocks_of_w = CeilDivide(w.block_k(), x.block());
    const uint64_t group_bytes = CeilDivide(x.block(), GroupInputs(kLayout)) * GroupBytes(kLayout);
    const std::byte* groups = w.panel(panel);
    const uint64_t panel_bytes = w.panel(1) - w.panel(0);
    const float* scales = w.scales(panel);
    const uint8_t* zero_points = w.zero_points(panel);
    const uint64_t blocks = w.blocks();
    const int8_t* codes = x.codes(row);
    const int32_t* offsets = x.offsets(0) + row;
    const float* x_scales = x.scales(0) + row;
    uint64_t x_block_of_w = 0;
    uint64_t w_block = 0;
    V total[kRows][kPanels];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) {
        total[r][p] = StartOf<V>(addend, r, p * kPanelOutputs, ColumnsOf(w, panel + p));
      }
    }
    for (uint64_t begin = 0; begin < w.k(); begin += x.block()) {
      Ints sum[kRows][kPanels];
      for (int r = 0; r < kRows; ++r) {
        for (int p = 0; p < kPanels; ++p)
          sum[r][p] = V::BroadcastInt(kHasZeroPoints ? 0 : offsets[r]);
      }
      const uint64_t inputs = std::min(w.k() - begin, x.block());
      if (inputs == kWholeBlock) {
        Dot(groups, panel_bytes, codes, x.stride(), kWholeBlock, sum);
      } else {
        Ints apart[kRows][kPanels];  // what is in memory is in no register
        std::memcpy(apart, sum, sizeof(sum));
        DotPart(groups, panel_bytes, codes, x.stride(), inputs, apart);
        std::memcpy(sum, apart, sizeof(sum));
      }
      for (int p = 0; p < kPanels; ++p) {
        const V scale = V::Load(scales + (p * blocks + w_block) * kPanelOutputs);
        for (int r = 0; r < kRows; ++r) {
          V value = V::ToFloats(sum[r][p]);
          if constexpr (kHasZeroPoints) {
            const V sum_of_codes = V::Broadcast(static_cast<float>(offsets[r]));
            value = value - ZeroPoints<V>(w, zero_points, p * blocks + w_block) * sum_of_codes;
          }
          total[r][p] = MulAdd(value, scale * V::Broadcast(x_scales[r]), total[r][p]);
        }
      }

      groups += group_bytes;
      codes += x.block();
      offsets += x.rows();
      x_scales += x.rows();
      if (++x_block_of_w == x_blocks_of_w) {
        x_block_of_w = 0;
        ++w_block;
      }
    }
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      const uint64_t columns = ColumnsOf(w, panel + p);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        StorePart(total[r][p], y.data + static_cast<uint64_t>(r) * y.stride + p * kPanelOutputs,
                  columns);
      }
    }
  }
};

using Int8TileFunction = void (*)(const PackedMatrix& w, uint64_t panel, const QuantizedRows& x,
                                  uint64_t row, Addend addend, Outputs y);

// Tiles of kPanels panels and of 1, 2, ... rows, by number of rows less one.
template <typename V, Layout kLayout, bool kHasZeroPoints, int kPanels, size_t... kIndex>
constexpr std::array<Int8TileFunction, sizeof...(kIndex)> Int8Tiles(
    std::index_sequence<kIndex...>) {
  return {&Int8Tile<V, kLayout, kHasZeroPoints, kPanels, static_cast<int>(kIndex) + 1>::Compute...};
}

// The panels times the rows, in tiles of kPanels panels and up to kRows rows. Returns the first of
// the panels that fill no tile.
template <typename V, Layout kLayout, bool kHasZeroPoints, uint64_t kPanels, uint64_t kRows>
uint64_t ComputeTiles(const PackedMatrix& w, const QuantizedRows& x, Range rows, Addend addend,
                      Outputs y, Range panels) {
  static constexpr auto kTiles =
      Int8Tiles<V, kLayout, kHasZeroPoints, kPanels>(std::make_index_sequence<kRows>());
  const uint64_t end_of_tiles = panels.last - panels.size() % kPanels;
  const uint64_t tiles = CeilDivide(rows.size(), kRows);  // of much the same height
  for (uint64_t panel = panels.first; panel < end_of_tiles; panel += kPanels) {
    const uint64_t n = (panel - panels.first) * kPanelOutputs;
    for (uint64_t tile = 0; tile < tiles; ++tile) {
      const uint64_t row = rows.first + rows.size() * tile / tiles;
      const uint64_t next = rows.first + rows.size() * (tile + 1) / tiles;
      const uint64_t from = row - rows.first;
      kTiles[next - row - 1](w, panel, x, row, addend.From(from, n), y.From(from, n));
    }
  }
  return end_of_tiles;
}

template <typename V, Layout kLayout, bool kHasZeroPoints>
void MatMulInt8Layout(const PackedMatrix& w, const QuantizedRows& x, Range rows, Addend addend,
                      Outputs y, Range panels) {
  // Few rows wait for the weights, which come fastest in the order of memory: panel by panel.
  if (V::kInt8Panels > 1 && rows.size() > V::kInt8Rows) {
    const uint64_t first = panels.first;
    panels.first = ComputeTiles<V, kLayout, kHasZeroPoints, V::kInt8Panels, V::kInt8RowsOfPanels>(
        w, x, rows, addend, y, panels);
    const uint64_t done = (panels.first - first) * kPanelOutputs;
    addend = addend.From(0, done);
    y = y.From(0, done);
  }
  ComputeTiles<V, kLayout, kHasZeroPoints, 1, V::kInt8Rows>(w, x, rows, addend, y, panels);
}

template <typename V>
void MatMulInt8(const PackedMatrix& w, const QuantizedRows& x, Range rows, Addend addend, Outputs y,
                Range panels) {
  const bool has_zero_points = !x.zero_point();
  if (w.layout() == Layout::kU4) {
    return has_zero_points ? MatMulInt8Layout<V, Layout::kU4, true>(w, x, rows, addend, y, panels)
                           : MatMulInt8Layout<V, Layout::kU4, false>(w, x, rows, addend, y, panels);
  }
  return has_zero_points ? MatMulInt8Layout<V, Layout::kU8, true>(w, x, rows, addend, y, panels)
                         : MatMulInt8Layout<V, Layout::kU8, false>(w, x, rows, addend, y, panels);
}

}  // namespace
}  // namespace tandem

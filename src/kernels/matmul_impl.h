#pragma once

// The matrix multiplication over packed weights, over the vector of kernels/vector.h.
//
// Few rows (a decode step) read each weight once, straight from the packed codes: that is bound by
// memory. Many rows (prefill) first dequantize a chunk of a panel that fits the cache and then run
// over it with a tile of registers: that is bound by multiplications.

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/matmul.h"
#include "kernels/vector.h"

namespace tandem {
namespace {

// From this many rows on, dequantizing a chunk first is worth it.
constexpr uint64_t kManyRows = 5;
// Inputs times panels of a chunk: of f32 they are 128 KiB, a part of an L2 cache. The tiles stream
// through it; and the fewer chunks, the less often sums go to memory and back.
constexpr uint64_t kChunkInputs = 2048;

// How to turn a group of each layout into vectors, one for each input of the group.
template <typename V, Layout kLayout>
struct Codec {
  static constexpr int kInputs = GroupInputs(kLayout);
  static constexpr bool kQuantized = kLayout == Layout::kU8 || kLayout == Layout::kU4;

  static void Decode(const std::byte* group, V (&w)[kInputs]) {
    if constexpr (kLayout == Layout::kU8) {
      DecodeU8(reinterpret_cast<const uint8_t*>(group), w);
    } else if constexpr (kLayout == Layout::kU4) {
      DecodeU4(reinterpret_cast<const uint8_t*>(group), w);
    } else {
      for (uint64_t i = 0; i < kInputs; ++i) {
        if constexpr (kLayout == Layout::kF32) {
          w[i] = V::Load(reinterpret_cast<const float*>(group) + i * kPanelOutputs);
        } else if constexpr (kLayout == Layout::kF16) {
          w[i] = V::LoadF16(reinterpret_cast<const uint16_t*>(group) + i * kPanelOutputs);
        } else {
          w[i] = V::LoadBf16(reinterpret_cast<const uint16_t*>(group) + i * kPanelOutputs);
        }
      }
    }
  }
};

// The zero points of one block of a panel.
template <typename V>
V ZeroPoints(const PackedMatrix& w, const uint8_t* zero_points, uint64_t block) {
  return zero_points == nullptr ? V::Broadcast(w.zero_point())
                                : V::LoadU8(zero_points + block * kPanelOutputs);
}

// What the sums of `columns` outputs from n on start from in a row.
template <typename V>
V StartOf(Addend addend, uint64_t row, uint64_t n, uint64_t columns) {
  return addend.exist() ? LoadPart<V>(addend.data + row * addend.stride + n, columns) : V::Zero();
}

// The columns of panel `panel` of w.
inline uint64_t ColumnsOf(const PackedMatrix& w, uint64_t panel) {
  return std::min(kPanelOutputs, w.n() - panel * kPanelOutputs);
}

// One panel times kRows rows of x.
template <typename V, Layout kLayout, int kRows>
void FewRows(const PackedMatrix& w, uint64_t panel, const float* x, Addend addend, Outputs y) {
  using C = Codec<V, kLayout>;
  // Independent sums hide the latency of a multiply-add when there are too few rows to do so.
  constexpr int kSums = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
  const uint64_t k = w.k();
  const uint64_t block_inputs = C::kQuantized ? w.block_k() : k;
  const std::byte* group = w.panel(panel);
  const float* scales = C::kQuantized ? w.scales(panel) : nullptr;
  const uint8_t* zero_points = C::kQuantized ? w.zero_points(panel) : nullptr;

  const uint64_t columns = ColumnsOf(w, panel);
  V total[kRows];
  for (uint64_t r = 0; r < kRows; ++r) total[r] = StartOf<V>(addend, r, 0, columns);
  for (uint64_t begin = 0, block = 0; begin < k; begin += block_inputs, ++block) {
    const uint64_t end = std::min(k, begin + block_inputs);
    V zero_point = V::Zero();
    if constexpr (C::kQuantized) zero_point = ZeroPoints<V>(w, zero_points, block);
    V sum[kRows][kSums];
    for (auto& row : sum) {
      for (V& part : row) part = V::Zero();
    }
    const auto add_group = [&](uint64_t at, int inputs) {
      V weight[C::kInputs];
      C::Decode(group, weight);
      group += GroupBytes(kLayout);
      for (int i = 0; i < inputs; ++i) {
        V value = weight[i];
        if constexpr (C::kQuantized) value = value - zero_point;
        for (int r = 0; r < kRows; ++r) {
          V& part = sum[r][i % kSums];
          part = MulAdd(V::Broadcast(x[static_cast<uint64_t>(r) * k + at + i]), value, part);
        }
      }
    };
    uint64_t at = begin;
    for (; at + C::kInputs <= end; at += C::kInputs) add_group(at, C::kInputs);
    if (at < end) add_group(at, static_cast<int>(end - at));
    for (int r = 0; r < kRows; ++r) {
      V row = sum[r][0];
      for (int i = 1; i < kSums; ++i) row = row + sum[r][i];
      if constexpr (C::kQuantized) {
        total[r] = MulAdd(row, V::Load(scales + block * kPanelOutputs), total[r]);
      } else {
        total[r] = total[r] + row;
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    StorePart(total[r], y.data + static_cast<uint64_t>(r) * y.stride, columns);
  }
}

// out[input][16] = the inputs [begin, end) of a panel as floats.
template <typename V, Layout kLayout>
void DequantizeChunk(const PackedMatrix& w, uint64_t panel, uint64_t begin, uint64_t end,
                     float* out) {
  using C = Codec<V, kLayout>;
  const std::byte* group = w.panel(panel) + begin / C::kInputs * GroupBytes(kLayout);
  const float* scales = C::kQuantized ? w.scales(panel) : nullptr;
  const uint8_t* zero_points = C::kQuantized ? w.zero_points(panel) : nullptr;
  for (uint64_t at = begin; at < end; at += C::kInputs, group += GroupBytes(kLayout)) {
    V weight[C::kInputs];
    C::Decode(group, weight);
    if constexpr (C::kQuantized) {
      const uint64_t block = at / w.block_k();
      const V scale = V::Load(scales + block * kPanelOutputs);
      const V zero_point = ZeroPoints<V>(w, zero_points, block);
      for (V& value : weight) value = (value - zero_point) * scale;
    }
    for (V& value : weight) {
      value.Store(out);
      out += kPanelOutputs;
    }
  }
}

// kRows rows of y = addend + rows of x [.., inputs] times kPanels panels [inputs][16], of which all
// but the last are full of the `columns`.
template <typename V, int kPanels, int kRows>
void Tile(const float* panels, uint64_t panel_stride, uint64_t inputs, const float* x,
          uint64_t x_stride, Addend addend, Outputs y, uint64_t columns) {
  const auto columns_of = [&](uint64_t p) {
    return std::min(kPanelOutputs, columns - p * kPanelOutputs);
  };
  V sum[kRows][kPanels];
#pragma GCC unroll 16
  for (uint64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (uint64_t p = 0; p < kPanels; ++p) {
      sum[r][p] = StartOf<V>(addend, r, p * kPanelOutputs, columns_of(p));
    }
  }
  for (uint64_t i = 0; i < inputs; ++i) {
    V weights[kPanels];
    for (uint64_t p = 0; p < kPanels; ++p) {
      weights[p] = V::Load(panels + p * panel_stride + i * kPanelOutputs);
    }
    for (uint64_t r = 0; r < kRows; ++r) {
      const V input = V::Broadcast(x[r * x_stride + i]);
      for (uint64_t p = 0; p < kPanels; ++p) sum[r][p] = MulAdd(input, weights[p], sum[r][p]);
    }
  }
#pragma GCC unroll 16
  for (uint64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (uint64_t p = 0; p < kPanels; ++p) {
      StorePart(sum[r][p], y.data + r * y.stride + p * kPanelOutputs, columns_of(p));
    }
  }
}

template <typename V>
using TileFunction = decltype(&Tile<V, 1, 1>);

// Tile<V, kPanels, 1> ... of as many rows as there are indices, by number of rows less one.
template <typename V, int kPanels, size_t... kIndex>
constexpr std::array<TileFunction<V>, sizeof...(kIndex)> Tiles(std::index_sequence<kIndex...>) {
  return {&Tile<V, kPanels, static_cast<int>(kIndex) + 1>...};
}

// Tile over any number of rows. `columns`: up to 16 * V::kTilePanels.
template <typename V>
void TileRows(const float* panels, uint64_t panel_stride, uint64_t inputs, const float* x,
              uint64_t x_stride, Addend addend, Outputs y, uint64_t columns, uint64_t rows) {
  static constexpr auto kOnePanel = Tiles<V, 1>(std::make_index_sequence<V::kTileRows>());
  static constexpr auto kPanels =
      Tiles<V, V::kTilePanels>(std::make_index_sequence<V::kTileRows>());
  const auto& tiles = columns <= kPanelOutputs ? kOnePanel : kPanels;
  // Tiles of much the same height: none is too low to hide the latency of a multiply-add.
  const uint64_t count = CeilDivide(rows, V::kTileRows);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t row = rows * i / count;
    const uint64_t height = rows * (i + 1) / count - row;
    tiles[height - 1](panels, panel_stride, inputs, x + row * x_stride, x_stride,
                      addend.From(row, 0), y.From(row, 0), columns);
  }
}

// `panels` panels, 1 or V::kTilePanels, times m rows of x. Panels of f32 are as the tiles read
// them.
template <typename V, Layout kLayout>
void ManyRows(const PackedMatrix& w, uint64_t panel, uint64_t panels, const float* x, uint64_t m,
              Addend addend, Outputs y) {
  constexpr bool kIsStraight = kLayout == Layout::kF32;
  constexpr uint64_t kInputs = (kIsStraight ? 2 : 1) * kChunkInputs / V::kTilePanels;
  constexpr uint64_t kPanelFloats = kInputs * kPanelOutputs;
  alignas(64) float buffer[kIsStraight ? 1 : kChunkInputs * kPanelOutputs];
  const uint64_t columns = std::min(panels * kPanelOutputs, w.n() - panel * kPanelOutputs);
  for (uint64_t begin = 0; begin < w.k(); begin += kInputs) {
    const uint64_t end = std::min(w.k(), begin + kInputs);
    const float* chunk = buffer;
    uint64_t stride = kPanelFloats;
    if constexpr (kIsStraight) {
      chunk = reinterpret_cast<const float*>(w.panel(panel)) + begin * kPanelOutputs;
      stride = static_cast<uint64_t>(w.panel(1) - w.panel(0)) / sizeof(float);
    } else {
      for (uint64_t p = 0; p < panels; ++p) {
        DequantizeChunk<V, kLayout>(w, panel + p, begin, end, buffer + p * kPanelFloats);
      }
    }
    TileRows<V>(chunk, stride, end - begin, x + begin, w.k(), addend, y, columns, m);
    addend = {y.data, y.stride};
  }
}

template <typename V, Layout kLayout>
void MatMulLayout(const PackedMatrix& w, const float* x, uint64_t m, Addend addend, Outputs y,
                  Range range) {
  static constexpr std::array kFewRows{&FewRows<V, kLayout, 1>, &FewRows<V, kLayout, 2>,
                                       &FewRows<V, kLayout, 3>, &FewRows<V, kLayout, 4>};
  static_assert(kFewRows.size() == kManyRows - 1);
  if (m == 0) return;
  for (uint64_t panel = range.first; panel < range.last;) {
    const uint64_t n = (panel - range.first) * kPanelOutputs;
    const Addend from = addend.From(0, n);
    const Outputs to = y.From(0, n);
    uint64_t panels = 1;
    if (m < kManyRows) {
      kFewRows[m - 1](w, panel, x, from, to);
    } else {
      if (range.last - panel >= V::kTilePanels) panels = V::kTilePanels;
      ManyRows<V, kLayout>(w, panel, panels, x, m, from, to);
    }
    panel += panels;
  }
}

template <typename V>
void MatMul(const PackedMatrix& w, const float* x, uint64_t m, Addend addend, Outputs y,
            Range panels) {
  switch (w.layout()) {
    case Layout::kF32:
      return MatMulLayout<V, Layout::kF32>(w, x, m, addend, y, panels);
    case Layout::kF16:
      return MatMulLayout<V, Layout::kF16>(w, x, m, addend, y, panels);
    case Layout::kBf16:
      return MatMulLayout<V, Layout::kBf16>(w, x, m, addend, y, panels);
    case Layout::kU8:
      return MatMulLayout<V, Layout::kU8>(w, x, m, addend, y, panels);
    case Layout::kU4:
      return MatMulLayout<V, Layout::kU4>(w, x, m, addend, y, panels);
  }
}

}  // namespace
}  // namespace tandem

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
// Inputs of a dequantized chunk: 16 outputs x 256 inputs of f32 are 16 KiB, half of an L1 cache.
constexpr uint64_t kChunkInputs = 256;

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

// One panel times kRows rows of x.
template <typename V, Layout kLayout, int kRows>
void FewRows(const PackedMatrix& w, uint64_t panel, const float* x, float* y) {
  using C = Codec<V, kLayout>;
  // Independent sums hide the latency of a multiply-add when there are too few rows to do so.
  constexpr int kSums = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
  const uint64_t k = w.k();
  const uint64_t block_inputs = C::kQuantized ? w.block_k() : k;
  const std::byte* group = w.panel(panel);
  const float* scales = C::kQuantized ? w.scales(panel) : nullptr;
  const uint8_t* zero_points = C::kQuantized ? w.zero_points(panel) : nullptr;

  V total[kRows];
  for (V& row : total) row = V::Zero();
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
        total[r] = row;
      }
    }
  }
  const uint64_t n = panel * kPanelOutputs;
  const uint64_t columns = std::min(kPanelOutputs, w.n() - n);
  for (int r = 0; r < kRows; ++r) {
    StorePart(total[r], y + static_cast<uint64_t>(r) * w.n() + n, columns);
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

// kRows rows of y (+)= rows of x [.., inputs] times a chunk [inputs][16].
template <typename V, int kRows>
void Tile(const float* chunk, uint64_t inputs, const float* x, uint64_t x_stride, float* y,
          uint64_t y_stride, uint64_t columns, bool add) {
  V sum[kRows];
  for (int r = 0; r < kRows; ++r) {
    sum[r] = add ? LoadPart<V>(y + static_cast<uint64_t>(r) * y_stride, columns) : V::Zero();
  }
  for (uint64_t i = 0; i < inputs; ++i) {
    const V weight = V::Load(chunk + i * kPanelOutputs);
    for (int r = 0; r < kRows; ++r) {
      sum[r] = MulAdd(V::Broadcast(x[static_cast<uint64_t>(r) * x_stride + i]), weight, sum[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    StorePart(sum[r], y + static_cast<uint64_t>(r) * y_stride, columns);
  }
}

template <typename V>
using TileFunction = decltype(&Tile<V, 1>);

// Tile<V, 1> ... Tile<V, kTileRows>, by number of rows less one.
template <typename V, size_t... kIndex>
constexpr std::array<TileFunction<V>, sizeof...(kIndex)> Tiles(std::index_sequence<kIndex...>) {
  return {&Tile<V, static_cast<int>(kIndex) + 1>...};
}

template <typename V, Layout kLayout>
void ManyRows(const PackedMatrix& w, uint64_t panel, const float* x, uint64_t m, float* y) {
  static constexpr auto kTiles = Tiles<V>(std::make_index_sequence<V::kTileRows>());
  alignas(64) float buffer[kChunkInputs * kPanelOutputs];
  const uint64_t n = panel * kPanelOutputs;
  const uint64_t columns = std::min(kPanelOutputs, w.n() - n);
  for (uint64_t begin = 0; begin < w.k(); begin += kChunkInputs) {
    const uint64_t end = std::min(w.k(), begin + kChunkInputs);
    const float* chunk = buffer;
    if constexpr (kLayout == Layout::kF32) {
      chunk = reinterpret_cast<const float*>(w.panel(panel)) + begin * kPanelOutputs;
    } else {
      DequantizeChunk<V, kLayout>(w, panel, begin, end, buffer);
    }
    for (uint64_t row = 0; row < m; row += V::kTileRows) {
      const uint64_t rows = std::min<uint64_t>(V::kTileRows, m - row);
      kTiles[rows - 1](chunk, end - begin, x + row * w.k() + begin, w.k(), y + row * w.n() + n,
                       w.n(), columns, begin > 0);
    }
  }
}

template <typename V, Layout kLayout>
void MatMulLayout(const PackedMatrix& w, const float* x, uint64_t m, float* y, uint64_t first,
                  uint64_t last) {
  static constexpr std::array kFewRows{&FewRows<V, kLayout, 1>, &FewRows<V, kLayout, 2>,
                                       &FewRows<V, kLayout, 3>, &FewRows<V, kLayout, 4>};
  static_assert(kFewRows.size() == kManyRows - 1);
  for (uint64_t panel = first; panel < last; ++panel) {
    if (m < kManyRows) {
      if (m > 0) kFewRows[m - 1](w, panel, x, y);
    } else {
      ManyRows<V, kLayout>(w, panel, x, m, y);
    }
  }
}

template <typename V>
void MatMul(const PackedMatrix& w, const float* x, uint64_t m, float* y, uint64_t first,
            uint64_t last) {
  switch (w.layout()) {
    case Layout::kF32:
      return MatMulLayout<V, Layout::kF32>(w, x, m, y, first, last);
    case Layout::kF16:
      return MatMulLayout<V, Layout::kF16>(w, x, m, y, first, last);
    case Layout::kBf16:
      return MatMulLayout<V, Layout::kBf16>(w, x, m, y, first, last);
    case Layout::kU8:
      return MatMulLayout<V, Layout::kU8>(w, x, m, y, first, last);
    case Layout::kU4:
      return MatMulLayout<V, Layout::kU4>(w, x, m, y, first, last);
  }
}

}  // namespace
}  // namespace tandem

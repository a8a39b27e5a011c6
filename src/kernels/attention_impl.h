#pragma once

// Attention over the vector of kernels/vector.h.
//
// A few queries (a decode step) read each key and value once, straight from the cache. Many queries
// (prefill) multiply with the tiles of matmul_impl.h, for which keys and values are first brought
// into panels of 16.

#include <algorithm>
#include <limits>
#include <memory>

#include "kernels/attention.h"
#include "kernels/matmul_impl.h"

namespace tandem {
namespace {

constexpr uint64_t kFewQueries = 4;

// row[0 .. keys) of scores to probabilities, `bias` added first; 1 / sum is returned, not
// multiplied.
template <typename V>
float Softmax(float* row, uint64_t keys, float scale, const float* bias) {
  const V factor = V::Broadcast(scale);
  V largest = V::Broadcast(-std::numeric_limits<float>::infinity());
  for (uint64_t t = 0; t < keys; t += kPanelOutputs) {
    const uint64_t part = std::min(kPanelOutputs, keys - t);
    V score = LoadPart<V>(row + t, part) * factor;
    if (bias != nullptr) score = score + LoadPart<V>(bias + t, part);
    StorePart(score, row + t, part);
    if (part == kPanelOutputs) {
      largest = Max(largest, score);
    } else {
      for (uint64_t i = t; i < keys; ++i) largest = Max(largest, V::Broadcast(row[i]));
    }
  }
  const float most = Largest(largest);
  V sum = V::Zero();
  for (uint64_t t = 0; t < keys; t += kPanelOutputs) {
    const uint64_t part = std::min(kPanelOutputs, keys - t);
    V probability = Exp(LoadPart<V>(row + t, part) - V::Broadcast(most));
    StorePart(probability, row + t, part);
    if (part < kPanelOutputs) probability = LoadPart<V>(row + t, part);  // drops what is beyond
    sum = sum + probability;
  }
  return 1 / Sum(sum);
}

template <typename V>
void OneQuery(const AttentionHead& head, uint64_t query, float* scores) {
  const float* q = head.q + query * head.q_stride;
  for (uint64_t t = 0; t < head.keys; ++t) {
    const float* k = head.k + t * head.kv_stride;
    V sum = V::Zero();
    for (uint64_t d = 0; d < head.size; d += kPanelOutputs) {
      const uint64_t part = std::min(kPanelOutputs, head.size - d);
      sum = MulAdd(LoadPart<V>(q + d, part), LoadPart<V>(k + d, part), sum);
    }
    scores[t] = Sum(sum);
  }
  const float* bias = head.bias == nullptr ? nullptr : head.bias + query * head.bias_stride;
  const float normalize = Softmax<V>(scores, head.keys, head.scale, bias);
  for (uint64_t d = 0; d < head.size; d += kPanelOutputs) {
    const uint64_t part = std::min(kPanelOutputs, head.size - d);
    V sum = V::Zero();
    for (uint64_t t = 0; t < head.keys; ++t) {
      sum =
          MulAdd(V::Broadcast(scores[t]), LoadPart<V>(head.v + t * head.kv_stride + d, part), sum);
    }
    StorePart(sum * V::Broadcast(normalize), head.out + query * head.out_stride + d, part);
  }
}

// Runs the tiles of matmul_impl.h over all rows: y [rows][columns] = x [rows][inputs] * panel.
template <typename V>
void TileRows(const float* panel, uint64_t inputs, const float* x, uint64_t x_stride, float* y,
              uint64_t y_stride, uint64_t columns, uint64_t rows) {
  static constexpr auto kTiles = Tiles<V>(std::make_index_sequence<V::kTileRows>());
  for (uint64_t row = 0; row < rows; row += V::kTileRows) {
    const uint64_t count = std::min<uint64_t>(V::kTileRows, rows - row);
    kTiles[count - 1](panel, inputs, x + row * x_stride, x_stride, y + row * y_stride, y_stride,
                      columns, /*add=*/false);
  }
}

template <typename V>
void ManyQueries(const AttentionHead& head, uint64_t first, uint64_t last) {
  const uint64_t key_panels = CeilDivide(head.keys, kPanelOutputs);
  const uint64_t scores_stride = key_panels * kPanelOutputs;
  const uint64_t longest = std::max(head.size, head.keys);
  const auto panel = std::make_unique_for_overwrite<float[]>(longest * kPanelOutputs);
  const auto scores = std::make_unique_for_overwrite<float[]>(kAttentionBlock * scores_stride);
  float normalize[kAttentionBlock];
  for (uint64_t block = first; block < last; block += kAttentionBlock) {
    const uint64_t rows = std::min(kAttentionBlock, last - block);
    for (uint64_t t = 0; t < head.keys; t += kPanelOutputs) {
      const uint64_t part = std::min(kPanelOutputs, head.keys - t);
      for (uint64_t d = 0; d < head.size; ++d) {
        for (uint64_t j = 0; j < kPanelOutputs; ++j) {
          panel[d * kPanelOutputs + j] = j < part ? head.k[(t + j) * head.kv_stride + d] : 0;
        }
      }
      TileRows<V>(panel.get(), head.size, head.q + block * head.q_stride, head.q_stride,
                  scores.get() + t, scores_stride, kPanelOutputs, rows);
    }
    for (uint64_t row = 0; row < rows; ++row) {
      const float* bias =
          head.bias == nullptr ? nullptr : head.bias + (block + row) * head.bias_stride;
      normalize[row] = Softmax<V>(scores.get() + row * scores_stride, head.keys, head.scale, bias);
    }
    for (uint64_t d = 0; d < head.size; d += kPanelOutputs) {
      const uint64_t part = std::min(kPanelOutputs, head.size - d);
      for (uint64_t t = 0; t < head.keys; ++t) {
        LoadPart<V>(head.v + t * head.kv_stride + d, part).Store(panel.get() + t * kPanelOutputs);
      }
      float* out = head.out + block * head.out_stride + d;
      TileRows<V>(panel.get(), head.keys, scores.get(), scores_stride, out, head.out_stride, part,
                  rows);
      for (uint64_t row = 0; row < rows; ++row) {
        float* place = out + row * head.out_stride;
        StorePart(LoadPart<V>(place, part) * V::Broadcast(normalize[row]), place, part);
      }
    }
  }
}

template <typename V>
void Attention(const AttentionHead& head, uint64_t first, uint64_t last) {
  if (last - first > kFewQueries) return ManyQueries<V>(head, first, last);
  const auto scores = std::make_unique_for_overwrite<float[]>(head.keys);
  for (uint64_t query = first; query < last; ++query) OneQuery<V>(head, query, scores.get());
}

}  // namespace
}  // namespace tandem

#pragma once

// Attention over the vector of kernels/vector.h.
//
// A few queries (a decode step) read each key and value once, straight from the cache. Many queries
// (prefill) multiply with the tiles of matmul_impl.h, from panels of 16 keys and 16 elements.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "kernels/attention.h"
#include "kernels/matmul_impl.h"

namespace tandem {
namespace {

// Keys [begin, end).
struct KeyRange {
  uint64_t begin;
  uint64_t end;

  uint64_t size() const { return end - begin; }
};

// Rows of keys or values in f32, f16 or bf16.
template <typename V, DataType kType>
struct KvRows {
  const void* data;
  uint64_t stride;

  // Elements [at, at + count) of a row; 0 for those beyond `count` of 16.
  V Load(uint64_t row, uint64_t at, uint64_t count) const {
    const uint64_t place = row * stride + at;
    if constexpr (kType == DataType::kFloat32) {
      return LoadPart<V>(static_cast<const float*>(data) + place, count);
    } else {
      const auto* from = static_cast<const uint16_t*>(data) + place;
      uint16_t whole[kPanelOutputs];
      if (count < kPanelOutputs) {
        std::memset(whole, 0, sizeof(whole));
        std::memcpy(whole, from, count * sizeof(uint16_t));
        from = whole;
      }
      return kType == DataType::kFloat16 ? V::LoadF16(from) : V::LoadBf16(from);
    }
  }
};

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

// scores[t] = q . k[t] for four keys from t on.
template <typename V, DataType kType>
void FourScores(const float* q, const KvRows<V, kType>& k, uint64_t t, uint64_t size,
                float* scores) {
  std::array<V, 4> sums{V::Zero(), V::Zero(), V::Zero(), V::Zero()};
  for (uint64_t d = 0; d < size; d += kPanelOutputs) {
    const uint64_t part = std::min(kPanelOutputs, size - d);
    const V x = LoadPart<V>(q + d, part);
    for (uint64_t i = 0; i < 4; ++i) sums[i] = MulAdd(x, k.Load(t + i, d, part), sums[i]);
  }
  Sums(sums, scores + t);
}

// Rows of keys or values in two places: the first `split` in one, the others in another.
template <typename V, DataType kType>
struct SplitRows {
  KvRows<V, kType> first;
  KvRows<V, kType> rest;
  uint64_t split;

  // Calls body(rows, begin, end) for the parts of [0, keys).
  template <typename Body>
  void ForParts(uint64_t keys, const Body& body) const {
    const uint64_t middle = std::min(split, keys);
    if (middle > 0) body(first, uint64_t{0}, middle);
    if (middle < keys) body(rest, middle, keys);
  }
};

// out[at ..) = normalize * sum over t of p[t] v[t], for kParts times 16 elements, the last of
// which has `last` elements only.
template <typename V, DataType kType, int kParts>
void MixValues(const float* p, const SplitRows<V, kType>& values, uint64_t keys, uint64_t at,
               uint64_t last, float normalize, float* out) {
  // Even and odd keys apart: two additions can be under way in each part.
  V sums[2][kParts];
  for (auto& half : sums) {
    for (V& sum : half) sum = V::Zero();
  }
  values.ForParts(keys, [&](const KvRows<V, kType>& v, uint64_t begin, uint64_t end) {
    const auto add = [&](V(&half)[kParts], uint64_t t) {
      const V weight = V::Broadcast(p[t]);
      for (uint64_t i = 0; i < kParts; ++i) {
        const uint64_t count = i + 1 == kParts ? last : kPanelOutputs;
        half[i] = MulAdd(weight, v.Load(t, at + i * kPanelOutputs, count), half[i]);
      }
    };
    uint64_t t = begin;
    for (; t + 2 <= end; t += 2) {
      add(sums[0], t);
      add(sums[1], t + 1);
    }
    if (t < end) add(sums[0], t);
  });
  for (uint64_t i = 0; i < kParts; ++i) {
    const uint64_t count = i + 1 == kParts ? last : kPanelOutputs;
    StorePart((sums[0][i] + sums[1][i]) * V::Broadcast(normalize), out + at + i * kPanelOutputs,
              count);
  }
}

template <typename V, DataType kType>
void OneQuery(const AttentionHeads& heads, uint64_t h, uint64_t query, float* scores) {
  const auto split = [&](const KvSource& past, const KvSource& all) {
    return SplitRows<V, kType>{{past.data, past.stride}, {all.data, all.stride}, heads.past_keys};
  };
  const float* q = heads.q + h * heads.q_head_stride + query * heads.q_stride;
  const uint64_t keys = heads.Sees(query);
  split(heads.past_k, heads.k)
      .ForParts(keys, [&](const KvRows<V, kType>& k, uint64_t begin, uint64_t end) {
        uint64_t t = begin;
        for (; t + kKeysTogether <= end; t += kKeysTogether) {
          FourScores(q, k, t, heads.size, scores);
        }
        for (; t < end; ++t) {
          V sum = V::Zero();
          for (uint64_t d = 0; d < heads.size; d += kPanelOutputs) {
            const uint64_t part = std::min(kPanelOutputs, heads.size - d);
            sum = MulAdd(LoadPart<V>(q + d, part), k.Load(t, d, part), sum);
          }
          scores[t] = Sum(sum);
        }
      });
  const float normalize = Softmax<V>(scores, keys, heads.scale, heads.Bias(h, query));
  const SplitRows<V, kType> v = split(heads.past_v, heads.v);
  float* out = heads.out + h * heads.out_head_stride + query * heads.out_stride;
  constexpr uint64_t kWide = 4 * kPanelOutputs;
  uint64_t d = 0;
  for (; d + kWide <= heads.size; d += kWide) {
    MixValues<V, kType, 4>(scores, v, keys, d, kPanelOutputs, normalize, out);
  }
  for (; d < heads.size; d += kPanelOutputs) {
    const uint64_t part = std::min(kPanelOutputs, heads.size - d);
    MixValues<V, kType, 1>(scores, v, keys, d, part, normalize, out);
  }
}

// The largest sum of squares of `rows` rows of `size` elements, which load(row, at, count) gives.
// NaN when one is not finite.
template <typename V, typename Load>
float LargestSquare(uint64_t rows, uint64_t size, const Load& load) {
  float largest = 0;
  float finite = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    V squares = V::Zero();
    for (uint64_t d = 0; d < size; d += kPanelOutputs) {
      const V part = load(row, d, std::min(kPanelOutputs, size - d));
      squares = MulAdd(part, part, squares);
    }
    const float sum = Sum(squares);
    largest = std::max(largest, sum);
    finite += sum * 0;
  }
  return largest + finite;
}

template <typename V, DataType kType>
float MakeKeyPanels(const KvSource& source, uint64_t keys, uint64_t size, float* panels) {
  const KvRows<V, kType> k{source.data, source.stride};
  float row[kPanelOutputs];
  for (uint64_t t = 0; t < keys; ++t) {
    float* to = panels + t / kPanelOutputs * size * kPanelOutputs + t % kPanelOutputs;
    for (uint64_t d = 0; d < size; d += kPanelOutputs) {
      const uint64_t part = std::min(kPanelOutputs, size - d);
      k.Load(t, d, part).Store(row);
      for (uint64_t i = 0; i < part; ++i) to[(d + i) * kPanelOutputs] = row[i];
    }
  }
  for (uint64_t t = keys; t < AlignUp(keys, kPanelOutputs); ++t) {
    float* to = panels + t / kPanelOutputs * size * kPanelOutputs + t % kPanelOutputs;
    for (uint64_t d = 0; d < size; ++d) to[d * kPanelOutputs] = 0;
  }
  std::fill_n(panels + AlignUp(keys, kPanelOutputs) * size, size * kPanelOutputs, 0.0F);
  return LargestSquare<V>(
      keys, size, [&](uint64_t t, uint64_t at, uint64_t count) { return k.Load(t, at, count); });
}

template <typename V, DataType kType>
void MakeValuePanels(const KvSource& source, uint64_t keys, uint64_t size, float* panels) {
  const KvRows<V, kType> v{source.data, source.stride};
  for (uint64_t t = 0; t < keys; ++t) {
    for (uint64_t d = 0; d < size; d += kPanelOutputs) {
      const V values = v.Load(t, d, std::min(kPanelOutputs, size - d));
      values.Store(panels + d * keys + t * kPanelOutputs);
    }
  }
}

// Calls body.operator()<type>() for the type of `source`.
template <typename Body>
auto WithKvType(const KvSource& source, const Body& body) {
  switch (source.type) {
    case DataType::kFloat16:
      return body.template operator()<DataType::kFloat16>();
    case DataType::kBfloat16:
      return body.template operator()<DataType::kBfloat16>();
    default:
      return body.template operator()<DataType::kFloat32>();
  }
}

template <typename V>
float KeyPanels(const KvSource& k, uint64_t keys, uint64_t size, float* panels) {
  return WithKvType(k,
                    [&]<DataType kType> { return MakeKeyPanels<V, kType>(k, keys, size, panels); });
}

template <typename V>
void ValuePanels(const KvSource& v, uint64_t keys, uint64_t size, float* panels) {
  WithKvType(v, [&]<DataType kType> { MakeValuePanels<V, kType>(v, keys, size, panels); });
}

// The keys [0, keys) but for those at the ends, in whole vectors, whose bias is lower than the
// row's largest by more than `gap`.
template <typename V>
KeyRange WithinGap(const float* bias, uint64_t keys, float gap) {
  V largest = V::Broadcast(bias[0]);
  const uint64_t whole = keys - keys % kPanelOutputs;
  for (uint64_t t = 0; t < whole; t += kPanelOutputs) largest = Max(largest, V::Load(bias + t));
  const float least =
      std::accumulate(bias + whole, bias + keys, Largest(largest),
                      [](float most, float value) { return std::max(most, value); }) -
      gap;
  const auto is_below = [&](uint64_t t) {
    if (t < whole) return Largest(V::Load(bias + t)) < least;
    return std::all_of(bias + t, bias + keys, [&](float value) { return value < least; });
  };
  uint64_t vectors = CeilDivide(keys, kPanelOutputs);
  while (vectors > 0 && is_below((vectors - 1) * kPanelOutputs)) --vectors;
  if (vectors == 0) return {0, keys};
  uint64_t begin = 0;
  while (is_below(begin)) begin += kPanelOutputs;
  return {begin, std::min(keys, vectors * kPanelOutputs)};
}

// The keys that queries [first, last) see, without those at the ends to which the bias leaves no
// probability: two scores are at most 2 |q| |k| scale apart, and e^x is 0 below kExpLowest.
template <typename V>
KeyRange SeenKeys(const AttentionHeads& heads, uint64_t first, uint64_t last) {
  const KeyRange all{0, heads.Sees(last - 1)};
  if (heads.bias == nullptr) return all;
  float q_square = 0;
  for (uint64_t h = 0; h < heads.heads; ++h) {
    const float* q = heads.q + h * heads.q_head_stride + first * heads.q_stride;
    const float square =
        LargestSquare<V>(last - first, heads.size, [&](uint64_t row, uint64_t at, uint64_t count) {
          return LoadPart<V>(q + row * heads.q_stride + at, count);
        });
    q_square = square > q_square || std::isnan(square) ? square : q_square;
  }
  // A NaN is a gap that no bias exceeds.
  const float gap =
      2.001F * std::abs(heads.scale) * std::sqrt(q_square) * std::sqrt(heads.panels.key_square) -
      kExpLowest + 1;
  const uint64_t biased_heads = heads.bias_head_stride == 0 ? 1 : heads.heads;
  const uint64_t biased_queries = heads.bias_stride == 0 ? 1 : last - first;
  KeyRange range{all.end, 0};
  for (uint64_t h = 0; h < biased_heads; ++h) {
    for (uint64_t query = first; query < first + biased_queries; ++query) {
      const KeyRange row = WithinGap<V>(heads.Bias(h, query), all.end, gap);
      range.begin = std::min(range.begin, row.begin);
      range.end = std::max(range.end, row.end);
    }
  }
  return range;
}

template <typename V>
void ManyQueries(const AttentionHeads& heads, uint64_t first, uint64_t last) {
  constexpr uint64_t kColumns = V::kTilePanels * kPanelOutputs;  // keys or elements at a time
  // What the last query sees is enough for all.
  const uint64_t stride = CeilDivide(heads.Sees(last - 1), kColumns) * kColumns;  // of scores
  const auto all_scores =
      std::make_unique_for_overwrite<float[]>(heads.heads * kAttentionBlock * stride);
  const auto normalize = std::make_unique_for_overwrite<float[]>(heads.heads * kAttentionBlock);
  const auto scores_of = [&](uint64_t h) {
    return all_scores.get() + h * kAttentionBlock * stride;
  };
  for (uint64_t block = first; block < last; block += kAttentionBlock) {
    const uint64_t rows = std::min(kAttentionBlock, last - block);
    const KeyRange seen = SeenKeys<V>(heads, block, block + rows);
    for (uint64_t t = seen.begin; t < seen.end; t += kColumns) {
      const uint64_t columns = std::min(kColumns, AlignUp(seen.end - t, kPanelOutputs));
      for (uint64_t h = 0; h < heads.heads; ++h) {
        TileRows<V>(heads.panels.keys + t * heads.size, heads.size * kPanelOutputs, heads.size,
                    heads.q + h * heads.q_head_stride + block * heads.q_stride, heads.q_stride,
                    Addend{}, Outputs{scores_of(h) + t - seen.begin, stride}, columns, rows);
      }
    }
    for (uint64_t h = 0; h < heads.heads; ++h) {
      for (uint64_t row = 0; row < rows; ++row) {
        const float* bias = heads.Bias(h, block + row);
        float* scores = scores_of(h) + row * stride;
        const uint64_t sees = std::min(heads.Sees(block + row), seen.end) - seen.begin;
        normalize[h * kAttentionBlock + row] =
            Softmax<V>(scores, sees, heads.scale, bias == nullptr ? nullptr : bias + seen.begin);
        std::fill(scores + sees, scores + seen.size(), 0.0F);
      }
    }
    for (uint64_t d = 0; d < heads.size; d += kColumns) {
      const uint64_t columns = std::min(kColumns, heads.size - d);
      const float* values = heads.panels.values + d * heads.keys + seen.begin * kPanelOutputs;
      for (uint64_t h = 0; h < heads.heads; ++h) {
        float* out = heads.out + h * heads.out_head_stride + block * heads.out_stride + d;
        TileRows<V>(values, heads.keys * kPanelOutputs, seen.size(), scores_of(h), stride, Addend{},
                    Outputs{out, heads.out_stride}, columns, rows);
        for (uint64_t row = 0; row < rows; ++row) {
          const V factor = V::Broadcast(normalize[h * kAttentionBlock + row]);
          for (uint64_t at = 0; at < columns; at += kPanelOutputs) {
            const uint64_t part = std::min(kPanelOutputs, columns - at);
            float* place = out + row * heads.out_stride + at;
            StorePart(LoadPart<V>(place, part) * factor, place, part);
          }
        }
      }
    }
  }
}

template <typename V>
void Attention(const AttentionHeads& heads, uint64_t first, uint64_t last) {
  if (first == last) return;
  if (last - first > kFewQueries) return ManyQueries<V>(heads, first, last);
  const auto scores = std::make_unique_for_overwrite<float[]>(heads.keys);
  WithKvType(heads.k, [&]<DataType kType> {
    for (uint64_t h = 0; h < heads.heads; ++h) {
      for (uint64_t query = first; query < last; ++query) {
        OneQuery<V, kType>(heads, h, query, scores.get());
      }
    }
  });
}

}  // namespace
}  // namespace tandem

#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/half.h"
#include "kernels/tested_kernels.h"

namespace tandem {
namespace {

class AttentionTest : public ::testing::TestWithParam<TestedKernels> {
 protected:
  std::vector<float> Random(size_t count, float width = 1) {
    std::normal_distribution<float> normal(0, width);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }

  struct Options {
    bool has_bias = false;
    bool is_causal = false;
    uint64_t window = 0;  // keys that the bias leaves to a query; 0: all
    uint64_t heads = 1;
    uint64_t past_keys = 0;  // in memory of their own
    DataType kv_type = DataType::kFloat32;
  };

  // `values` in 16 bits, rounded down to what these can say.
  static std::vector<uint16_t> Shorten(std::vector<float>& values, DataType type) {
    std::vector<uint16_t> bits;
    for (float& value : values) {
      value = std::floor(value * 64) / 64;  // exact in bf16 as long as it is below 4
      value = std::clamp(value, -3.0F, 3.0F);
      const auto word = std::bit_cast<uint32_t>(value);
      if (type == DataType::kBfloat16) {
        bits.push_back(static_cast<uint16_t>(word >> 16));
      } else {
        const uint32_t exponent = word == 0 || word == 0x80000000 ? 0 : (word >> 23 & 0xFF) - 112;
        bits.push_back(static_cast<uint16_t>(word >> 16 & 0x8000) |
                       static_cast<uint16_t>(exponent << 10) |
                       static_cast<uint16_t>(word >> 13 & 0x3FF));
      }
      value = type == DataType::kBfloat16 ? Bfloat16ToFloat(bits.back()) : HalfToFloat(bits.back());
    }
    return bits;
  }

  // Leaves `window` keys to each query, the first query the first ones; to every fifth none.
  static void Mask(uint64_t queries, uint64_t keys, uint64_t window, std::vector<float>& bias) {
    for (uint64_t row = 0; row < bias.size() / keys; ++row) {
      const uint64_t query = row % queries;
      const float masked = query % 2 == 0 ? std::numeric_limits<float>::lowest() : -INFINITY;
      for (uint64_t t = 0; t < keys; ++t) {
        const bool is_seen = t >= query && t < query + window;
        float& value = bias[row * keys + t];
        value = query % 5 == 4 || query >= keys ? std::numeric_limits<float>::lowest()
                : is_seen                       ? 0.5F
                                                : masked;
      }
    }
  }

  void ExpectExact(uint64_t queries, uint64_t keys, uint64_t size, const Options& options) {
    const uint64_t rows = options.heads * queries;
    AttentionHeads head;
    head.heads = options.heads;
    head.queries = queries;
    head.keys = keys;
    head.size = size;
    head.scale = 0.2F;
    head.q_stride = size + 3;
    head.q_head_stride = queries * head.q_stride;
    head.k = {options.kv_type, nullptr, size + 1};
    head.v = {options.kv_type, nullptr, size + 5};
    head.bias_stride = keys;
    head.bias_head_stride = queries * keys;
    head.out_stride = size + 2;
    head.out_head_stride = queries * head.out_stride;
    if (options.is_causal) head.first_sees = keys - std::min(keys - 1, queries - 1);
    const auto q = Random(rows * head.q_stride);
    auto k = Random(keys * head.k.stride);
    auto v = Random(keys * head.v.stride);
    std::vector<uint16_t> short_k;
    std::vector<uint16_t> short_v;
    if (options.kv_type != DataType::kFloat32) {
      short_k = Shorten(k, options.kv_type);
      short_v = Shorten(v, options.kv_type);
    }
    auto bias = Random(rows * keys, 3);
    for (size_t i = 0; i < bias.size(); i += 3) bias[i] = -10000;  // masked
    for (size_t i = 1; i < bias.size(); i += keys) bias[i] = 0;    // never the whole row
    if (options.window > 0) Mask(queries, keys, options.window, bias);
    constexpr float kUntouched = -77;
    std::vector<float> out((rows + 1) * head.out_stride, kUntouched);
    head.q = q.data();
    head.k.data = short_k.empty() ? static_cast<const void*>(k.data()) : short_k.data();
    head.v.data = short_v.empty() ? static_cast<const void*>(v.data()) : short_v.data();
    std::vector<float> key_panels(KvPanels::KeyFloats(keys, size), NAN);
    std::vector<float> value_panels(KvPanels::ValueFloats(keys, size), NAN);
    const Kernels& kernels = *GetParam().kernels;
    head.panels.key_square = kernels.key_panels(head.k, keys, size, key_panels.data());
    kernels.value_panels(head.v, keys, size, value_panels.data());
    head.panels.keys = key_panels.data();
    head.panels.values = value_panels.data();
    head.bias = options.has_bias ? bias.data() : nullptr;
    head.out = out.data();
    // Some keys are elsewhere.
    const std::vector<float> past_k = k;
    const std::vector<float> past_v = v;
    if (options.past_keys > 0) {
      head.past_keys = options.past_keys;
      head.past_k = {options.kv_type, past_k.data(), head.k.stride};
      head.past_v = {options.kv_type, past_v.data(), head.v.stride};
      std::fill_n(k.begin(), options.past_keys * head.k.stride, NAN);
      std::fill_n(v.begin(), options.past_keys * head.v.stride, NAN);
    }
    kernels.attention(head, 0, queries / 2);
    kernels.attention(head, queries / 2, queries);
    k = past_k;
    v = past_v;

    for (uint64_t s = 0; s < rows; ++s) {
      const uint64_t sees = head.Sees(s % queries);
      std::vector<double> p(sees);
      double sum = 0;
      double most = -INFINITY;
      for (uint64_t t = 0; t < sees; ++t) {
        for (uint64_t d = 0; d < size; ++d) {
          p[t] += double{q[s * head.q_stride + d]} * k[t * head.k.stride + d];
        }
        p[t] *= head.scale;
        if (options.has_bias) p[t] = static_cast<float>(p[t]) + bias[s * keys + t];
        most = std::max(most, p[t]);
      }
      for (double& value : p) sum += value = std::exp(value - most);
      for (uint64_t d = 0; d < size; ++d) {
        double expected = 0;
        for (uint64_t t = 0; t < sees; ++t) expected += p[t] / sum * v[t * head.v.stride + d];
        ASSERT_NEAR(out[s * head.out_stride + d], expected, 2e-5)
            << queries << " queries " << keys << " keys " << size << " query " << s << " at " << d;
      }
      ASSERT_EQ(out[s * head.out_stride + size], kUntouched);
    }
    ASSERT_EQ(out[rows * head.out_stride], kUntouched);
  }

  std::mt19937 random_;
};

TEST_P(AttentionTest, FewAndManyQueriesOverAnyNumberOfKeys) {
  for (bool has_bias : {false, true}) {
    for (uint64_t queries : {1, 2, 4, 5, 9, 31, 150}) {
      for (uint64_t keys : {2, 15, 16, 17, 40, 257}) {
        for (uint64_t size : {64, 20}) ExpectExact(queries, keys, size, {.has_bias = has_bias});
      }
    }
  }
}

TEST_P(AttentionTest, CausalSharedAndShortKeys) {
  for (DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    for (uint64_t queries : {1, 3, 6, 70}) {
      for (uint64_t keys : {1, 3, 18, 70, 130}) {
        for (uint64_t size : {128, 72}) {
          ExpectExact(queries, keys, size,
                      {.has_bias = keys == 18, .is_causal = true, .heads = 3, .kv_type = type});
        }
      }
    }
  }
}

TEST_P(AttentionTest, KeysThatTheBiasMasks) {
  for (uint64_t queries : {1, 4, 40, 70}) {
    for (uint64_t keys : {1, 17, 64, 257}) {
      for (uint64_t window : {1, 16, 100}) {
        ExpectExact(queries, keys, 32, {.has_bias = true, .window = window, .heads = 2});
      }
    }
  }
}

TEST_P(AttentionTest, AFewQueriesReadThePastWhereItIs) {
  for (uint64_t queries : {1, 3}) {
    for (uint64_t past : {1, 16, 37, 39}) {
      ExpectExact(queries, 40, 64, {.is_causal = true, .heads = 2, .past_keys = past});
      ExpectExact(queries, 40, 72, {.has_bias = true, .past_keys = past});
    }
  }
}

TEST_P(AttentionTest, OneKeyIsItsValue) {
  ExpectExact(3, 1, 16, {});
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionTest, ::testing::ValuesIn(AllKernels()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace tandem

#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/kernels.h"

namespace tandem {
namespace {

class AttentionTest : public ::testing::TestWithParam<Isa> {
 protected:
  std::vector<float> Random(size_t count, float width = 1) {
    std::normal_distribution<float> normal(0, width);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }

  void ExpectExact(uint64_t queries, uint64_t keys, uint64_t size, bool has_bias) {
    AttentionHead head;
    head.queries = queries;
    head.keys = keys;
    head.size = size;
    head.scale = 0.2F;
    head.q_stride = size + 3;
    head.kv_stride = size + 1;
    head.bias_stride = keys;
    head.out_stride = size + 2;
    const auto q = Random(queries * head.q_stride);
    const auto k = Random(keys * head.kv_stride);
    const auto v = Random(keys * head.kv_stride);
    auto bias = Random(queries * keys, 3);
    for (size_t i = 0; i < bias.size(); i += 3) bias[i] = -10000;  // masked
    for (size_t i = 1; i < bias.size(); i += keys) bias[i] = 0;    // never the whole row
    constexpr float kUntouched = -77;
    std::vector<float> out((queries + 1) * head.out_stride, kUntouched);
    head.q = q.data();
    head.k = k.data();
    head.v = v.data();
    head.bias = has_bias ? bias.data() : nullptr;
    head.out = out.data();
    const AttentionKernel kernel = KernelsFor(GetParam()).attention;
    kernel(head, 0, queries / 2);
    kernel(head, queries / 2, queries);

    for (uint64_t s = 0; s < queries; ++s) {
      std::vector<double> p(keys);
      double sum = 0;
      double most = -INFINITY;
      for (uint64_t t = 0; t < keys; ++t) {
        for (uint64_t d = 0; d < size; ++d) {
          p[t] += double{q[s * head.q_stride + d]} * k[t * head.kv_stride + d];
        }
        p[t] = p[t] * head.scale + (has_bias ? bias[s * keys + t] : 0);
        most = std::max(most, p[t]);
      }
      for (double& value : p) sum += value = std::exp(value - most);
      for (uint64_t d = 0; d < size; ++d) {
        double expected = 0;
        for (uint64_t t = 0; t < keys; ++t) expected += p[t] / sum * v[t * head.kv_stride + d];
        ASSERT_NEAR(out[s * head.out_stride + d], expected, 2e-5)
            << queries << " queries " << keys << " keys " << size << " query " << s << " at " << d;
      }
      ASSERT_EQ(out[s * head.out_stride + size], kUntouched);
    }
    ASSERT_EQ(out[queries * head.out_stride], kUntouched);
  }

  std::mt19937 random_;
};

TEST_P(AttentionTest, FewAndManyQueriesOverAnyNumberOfKeys) {
  for (bool has_bias : {false, true}) {
    for (uint64_t queries : {1, 2, 4, 5, 9, 31, 150}) {
      for (uint64_t keys : {2, 15, 16, 17, 40, 257}) {
        for (uint64_t size : {64, 20}) ExpectExact(queries, keys, size, has_bias);
      }
    }
  }
}

TEST_P(AttentionTest, OneKeyIsItsValue) {
  ExpectExact(3, 1, 16, false);
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionTest, ::testing::ValuesIn(SupportedIsas()),
                         [](const auto& param) { return std::string(Name(param.param)); });

}  // namespace
}  // namespace tandem

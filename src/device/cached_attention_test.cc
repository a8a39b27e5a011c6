#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <openvino/op/parameter.hpp>
#include <random>

#include "device/ops/attention.h"
#include "graph/attention_ports.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_function.h"

namespace tandem {
namespace {

using Floats64 = std::vector<double>;

float FromHalf(uint16_t bits) {
  _Float16 half;
  std::memcpy(&half, &bits, sizeof(half));
  return static_cast<float>(half);
}

// A caller's memory for keys or values.
class FakeCache : public KvCache {
 public:
  Tensor Past() override { return past; }
  Tensor Present(const Shape& shape) override {
    if (is_in_place) {
      EXPECT_EQ(shape, past.shape);
      return present = past;
    }
    present = AllocateTensor(type, shape);
    std::memset(present.data, 0xFF, present.bytes());
    return present;
  }

  double At(const Tensor& tensor, uint64_t element) const {
    if (tensor.type == DataType::kFloat32) return Floats(tensor)[element];
    return FromHalf(reinterpret_cast<const uint16_t*>(tensor.data)[element]);
  }

  DataType type = DataType::kFloat32;
  bool is_in_place = false;
  Tensor past;
  Tensor present;
};

// GroupQueryAttention on packed queries, as the operator computes it and as written down here.
struct Case {
  uint64_t heads = 4;
  uint64_t kv_heads = 2;
  uint64_t size = 16;
  uint64_t tokens = 1;
  std::vector<int32_t> ends{6};  // tokens of each sequence, new ones included
  int64_t past_rows = 5;         // -1: no past
  int32_t total = 0;             // 0: the largest end
  DataType type = DataType::kFloat32;
  bool is_in_place = false;
  uint64_t pairs = 0;  // 0: no rotation
  bool is_interleaved = false;
  uint64_t positions = 64;
  bool is_packed = true;

  FakeCache caches[2];
  ov::Tensor q;
  ov::Tensor k;
  ov::Tensor v;
  ov::Tensor cos;
  ov::Tensor sin;

  uint64_t batches() const { return ends.size(); }
  int32_t Total() const { return total != 0 ? total : *std::max_element(ends.begin(), ends.end()); }

  static ov::Tensor Random(std::mt19937& random, const ov::Shape& shape) {
    std::normal_distribution<float> normal;
    ov::Tensor tensor(ov::element::f32, shape);
    for (size_t i = 0; i < tensor.get_size(); ++i) tensor.data<float>()[i] = normal(random);
    return tensor;
  }

  void Fill() {
    std::mt19937 random(7);
    const uint64_t width = heads + (is_packed ? 2 * kv_heads : 0);
    q = Random(random, {batches(), tokens, width * size});
    k = Random(random, {batches(), tokens, kv_heads * size});
    v = Random(random, {batches(), tokens, kv_heads * size});
    cos = Random(random, {positions, std::max<uint64_t>(1, pairs)});
    sin = Random(random, cos.get_shape());
    for (FakeCache& cache : caches) {
      cache.type = type;
      cache.is_in_place = is_in_place;
      if (past_rows < 0) continue;
      cache.past = AllocateTensor(type, {std::ssize(ends), static_cast<int64_t>(kv_heads),
                                         past_rows, static_cast<int64_t>(size)});
      std::normal_distribution<float> normal;
      for (uint64_t i = 0; i < ElementCount(cache.past.shape); ++i) {
        const float value = normal(random);
        if (type == DataType::kFloat32) {
          Floats(cache.past)[i] = value;
        } else {
          const auto half = static_cast<_Float16>(value);
          std::memcpy(cache.past.data + i * 2, &half, sizeof(half));
        }
      }
    }
  }

  ov::Tensor Compute() {
    using Kind = AttentionInput;
    std::vector<std::pair<Kind, ov::Tensor>> inputs{{Kind::kQuery, q}};
    if (!is_packed) inputs.insert(inputs.end(), {{Kind::kKey, k}, {Kind::kValue, v}});
    if (pairs > 0) inputs.insert(inputs.end(), {{Kind::kCos, cos}, {Kind::kSin, sin}});
    ov::Tensor last(ov::element::i32, {ends.size()});
    for (size_t b = 0; b < ends.size(); ++b) last.data<int32_t>()[b] = ends[b] - 1;
    ov::Tensor all(ov::element::i32, {1});
    all.data<int32_t>()[0] = Total();
    ov::Tensor addresses(ov::element::i32, {2 * kAddressElements});
    for (size_t i : {0, 1}) {
      const CacheAddress address = AddressOf(caches[i]);
      std::copy(address.begin(), address.end(), addresses.data<int32_t>() + i * kAddressElements);
    }
    inputs.insert(inputs.end(),
                  {{Kind::kLast, last}, {Kind::kTotal, all}, {Kind::kAddress, addresses}});
    AttentionSettings settings;
    settings.scale = 0.4F;
    settings.heads = static_cast<int64_t>(heads);
    settings.kv_heads = static_cast<int64_t>(kv_heads);
    settings.merges_heads = true;
    settings.is_interleaved = is_interleaved;
    settings.cache = 0;
    ov::OutputVector parameters;
    ov::TensorVector tensors;
    for (const auto& [kind, tensor] : inputs) {
      settings.inputs.push_back(static_cast<int64_t>(kind));
      tensors.push_back(tensor);
      parameters.push_back(
          std::make_shared<ov::op::v0::Parameter>(tensor.get_element_type(), tensor.get_shape()));
    }
    Attention op(parameters, settings);
    op.set_friendly_name("the attention");
    ov::TensorVector outputs{ov::Tensor(ov::element::f32, {0})};
    op.evaluate(outputs, tensors);
    return outputs[0];
  }

  uint64_t Start(uint64_t batch) const {
    return static_cast<int32_t>(tokens) == Total() ? 0
                                                   : static_cast<uint64_t>(ends[batch]) - tokens;
  }

  // Head `head` of all in a packed row, or of k or v; rotated by the position.
  Floats64 Row(const ov::Tensor& tensor, uint64_t head, uint64_t batch, uint64_t token,
               bool rotates) const {
    const uint64_t width = tensor.get_shape()[2];
    const float* x = tensor.data<const float>() + (batch * tokens + token) * width + head * size;
    Floats64 row(x, x + size);
    if (!rotates || pairs == 0) return row;
    const uint64_t position = Start(batch) + token;
    for (uint64_t p = 0; p < pairs; ++p) {
      const uint64_t a = is_interleaved ? 2 * p : p;
      const uint64_t b = is_interleaved ? 2 * p + 1 : p + pairs;
      const double c = cos.data<const float>()[position * pairs + p];
      const double s = sin.data<const float>()[position * pairs + p];
      row[a] = x[a] * c - x[b] * s;
      row[b] = x[b] * c + x[a] * s;
    }
    return row;
  }

  Floats64 CacheRow(size_t kind, uint64_t batch, uint64_t head, uint64_t row) const {
    const uint64_t start = Start(batch);
    if (row < start) {
      const FakeCache& cache = before[kind];
      const uint64_t rows = static_cast<uint64_t>(cache.past.shape[2]);
      Floats64 values;
      for (uint64_t i = 0; i < size; ++i) {
        values.push_back(cache.At(cache.past, ((batch * kv_heads + head) * rows + row) * size + i));
      }
      return values;
    }
    if (!is_packed) return Row(kind == 0 ? k : v, head, batch, row - start, kind == 0);
    return Row(q, heads + kind * kv_heads + head, batch, row - start, kind == 0);
  }

  // Computes, and compares the result of every real token and every row of the caches with this.
  void Check(double tolerance = 1e-5) {
    Fill();
    for (size_t i : {0, 1}) {
      before[i] = caches[i];
      if (past_rows < 0) continue;
      before[i].past = AllocateTensor(type, caches[i].past.shape);
      std::memcpy(before[i].past.data, caches[i].past.data, caches[i].past.bytes());
    }
    const ov::Tensor found = Compute();
    ASSERT_EQ(found.get_shape(), (ov::Shape{batches(), tokens, heads * size}));
    for (uint64_t b = 0; b < batches(); ++b) {
      const uint64_t real = std::min<uint64_t>(tokens, static_cast<uint64_t>(ends[b]) - Start(b));
      for (uint64_t token = 0; token < real; ++token) {
        for (uint64_t head = 0; head < heads; ++head) CheckToken(found, b, token, head, tolerance);
      }
      for (size_t kind : {0, 1}) CheckCache(kind, b, real, tolerance);
    }
  }

  void CheckToken(const ov::Tensor& found, uint64_t b, uint64_t token, uint64_t head,
                  double tolerance) const {
    const Floats64 query = Row(q, head, b, token, true);
    const uint64_t served = head / (heads / kv_heads);
    Floats64 expected(size);
    double sum = 0;
    for (uint64_t row = 0; row <= Start(b) + token; ++row) {
      const Floats64 key = CacheRow(0, b, served, row);
      const Floats64 value = CacheRow(1, b, served, row);
      double score = 0;
      for (uint64_t i = 0; i < size; ++i) score += query[i] * key[i];
      const double weight = std::exp(score * 0.4);
      sum += weight;
      for (uint64_t i = 0; i < size; ++i) expected[i] += weight * value[i];
    }
    const float* y = found.data<const float>() + ((b * tokens + token) * heads + head) * size;
    for (uint64_t i = 0; i < size; ++i) {
      ASSERT_NEAR(y[i], expected[i] / sum, tolerance)
          << "batch " << b << ", token " << token << ", head " << head << ", element " << i;
    }
  }

  void CheckCache(size_t kind, uint64_t b, uint64_t real, double tolerance) const {
    const FakeCache& cache = caches[kind];
    const auto rows = std::max<int64_t>(past_rows, Total());
    ASSERT_EQ(cache.present.shape, (Shape{std::ssize(ends), static_cast<int64_t>(kv_heads), rows,
                                          static_cast<int64_t>(size)}));
    for (uint64_t head = 0; head < kv_heads; ++head) {
      for (uint64_t row = 0; row < Start(b) + real; ++row) {
        const Floats64 expected = CacheRow(kind, b, head, row);
        const uint64_t at = ((b * kv_heads + head) * static_cast<uint64_t>(rows) + row) * size;
        for (uint64_t i = 0; i < size; ++i) {
          ASSERT_NEAR(cache.At(cache.present, at + i), expected[i], tolerance)
              << "cache " << kind << ", batch " << b << ", row " << row;
        }
      }
    }
  }

  FakeCache before[2];
};

TEST(CachedAttention, Appends) {
  Case{}.Check();
  Case{.tokens = 6, .past_rows = 0}.Check();
  Case{.tokens = 70, .ends = {70}, .past_rows = -1}.Check();
  Case{.tokens = 3, .ends = {8}}.Check();
  Case{.is_packed = false}.Check();
}

// So much that it is copied past the cache.
TEST(CachedAttention, AppendsToALongPast) {
  for (uint64_t tokens : {1, 3}) {
    const auto end = static_cast<int32_t>(1100 + tokens);
    Case{.size = 64, .tokens = tokens, .ends = {end}, .past_rows = 1100}.Check();
    Case{.size = 64,
         .tokens = tokens,
         .ends = {end - 9, 400},
         .past_rows = 1100,
         .pairs = 8,
         .positions = 2048}
        .Check();
  }
  Case half{.size = 64, .ends = {1201}, .past_rows = 1200, .type = DataType::kFloat16};
  half.Check(5e-3);
}

TEST(CachedAttention, ChangesInPlace) {
  Case{.past_rows = 20, .is_in_place = true}.Check();
  Case{.tokens = 3, .ends = {20}, .past_rows = 20, .is_in_place = true}.Check();
  Case{.tokens = 6, .past_rows = 20, .is_in_place = true, .pairs = 8}.Check();
}

TEST(CachedAttention, SequencesHaveLengthsOfTheirOwn) {
  for (bool is_in_place : {false, true}) {
    Case{.ends = {6, 2}, .past_rows = 9, .is_in_place = is_in_place, .pairs = 8}.Check();
    Case{.tokens = 2, .ends = {4, 9, 2}, .past_rows = 9, .is_in_place = is_in_place}.Check();
  }
  Case{.tokens = 7, .ends = {7, 3}, .past_rows = -1, .pairs = 8}.Check();
}

TEST(CachedAttention, HalfPrecision) {
  Case half{.tokens = 3, .ends = {8, 7}, .past_rows = 5, .type = DataType::kFloat16, .pairs = 8};
  half.Check(5e-3);
  Case in_place{.past_rows = 8, .type = DataType::kFloat16, .is_in_place = true};
  in_place.Check(5e-3);
}

TEST(CachedAttention, HeadsOfAnySize) {
  for (uint64_t size : {2, 6, 20, 33, 80}) {
    Case{.size = size, .tokens = 2, .ends = {7}}.Check();
    Case{.kv_heads = 1, .size = size}.Check();
    Case{.kv_heads = 4, .size = size, .is_packed = false}.Check();
  }
}

TEST(CachedAttention, Rotations) {
  for (bool is_interleaved : {false, true}) {
    for (uint64_t pairs : {1, 4, 8}) {
      Case{.tokens = 2, .ends = {7}, .pairs = pairs, .is_interleaved = is_interleaved}.Check();
    }
  }
}

void ExpectRefused(Case c, std::initializer_list<const char*> parts) {
  c.Fill();
  try {
    c.Compute();
    ADD_FAILURE() << "it is computed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the attention: "));
    for (const char* part : parts) EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
  }
}

TEST(CachedAttention, ErrorsNameWhatWasFound) {
  ExpectRefused({.ends = {9}, .past_rows = 5}, {"1 new tokens after 8", "the past has 5 rows"});
  ExpectRefused({.ends = {9}, .past_rows = 5, .total = 7}, {"room for 7"});
  ExpectRefused({.ends = {6}, .past_rows = -1}, {"the past has 0 rows"});
  ExpectRefused({.tokens = 4, .ends = {3, 9}, .past_rows = 9}, {"sequence 0 has 3 tokens, 4"});
  ExpectRefused({.ends = {6}, .pairs = 8, .positions = 5}, {"angles for 5 positions, 6 are"});
  ExpectRefused({.size = 8, .pairs = 8}, {"up to 4", "[64,8]"});
}

TEST(CachedAttention, APastOfAnotherShapeIsAnError) {
  Case c;
  c.Fill();
  c.caches[1].past = AllocateTensor(DataType::kFloat32, {1, 3, 5, 16});
  EXPECT_TANDEM_ERROR(c.Compute(), ErrorCode::kInvalidArgument, "past [1,3,5,16]",
                      "[1, 2, rows, 16]");
  c.caches[1].past = AllocateTensor(DataType::kFloat32, {1, 2, 4, 16});
  EXPECT_TANDEM_ERROR(c.Compute(), ErrorCode::kInvalidArgument, "pasts of 5 and 4 rows");
}

TEST(CachedAttention, CachesOfOtherTypesAreErrors) {
  for (DataType type : {DataType::kFloat16, DataType::kInt32}) {
    Case c;
    c.Fill();
    c.caches[0].type = type;  // the past is f32
    EXPECT_TANDEM_ERROR(c.Compute(), ErrorCode::kInvalidArgument, "a past of f32");
  }
  Case c{.ends = {1}, .past_rows = -1};
  c.Fill();
  c.caches[1].type = DataType::kFloat16;
  EXPECT_TANDEM_ERROR(c.Compute(), ErrorCode::kInvalidArgument, "caches of f32 and f16");
}

TEST(CachedAttention, NoSequencesAreNoWork) {
  Case none{.ends = {}, .total = 6, .pairs = 8};
  none.Fill();
  EXPECT_EQ(none.Compute().get_shape(), (ov::Shape{0, 1, 64}));
  EXPECT_EQ(none.caches[0].present.shape, (Shape{0, 2, 6, 16}));
}

// What topologies call an input, and what the operator takes it for.
static_assert(AttentionPorts::kQuery == static_cast<int>(AttentionInput::kQuery));
static_assert(AttentionPorts::kKey == static_cast<int>(AttentionInput::kKey));
static_assert(AttentionPorts::kValue == static_cast<int>(AttentionInput::kValue));
static_assert(AttentionPorts::kBias == static_cast<int>(AttentionInput::kBias));
static_assert(AttentionPorts::kCos == static_cast<int>(AttentionInput::kCos));
static_assert(AttentionPorts::kSin == static_cast<int>(AttentionInput::kSin));
static_assert(AttentionPorts::kLast == static_cast<int>(AttentionInput::kLast));
static_assert(AttentionPorts::kTotal == static_cast<int>(AttentionInput::kTotal));
static_assert(AttentionPorts::kAddress == static_cast<int>(AttentionInput::kAddress));

}  // namespace
}  // namespace tandem

#include "device/ops/attention_arguments.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"

namespace tandem {
namespace {

class Reader {
 public:
  Reader(const ov::Node& op, const AttentionSettings& settings) : op_(op), settings_(settings) {}

  AttentionArguments Read(const AttentionInputs& inputs) {
    ReadQueries(inputs);
    ReadKeys(inputs);
    ReadPositions(inputs);
    ReadAngles(inputs);
    BindCaches(inputs);
    ReadBias(inputs);
    return std::move(made_);
  }

 private:
  static size_t Index(AttentionInput input) { return static_cast<size_t>(input); }

  template <typename... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    throw Error(ErrorCode::kInvalidArgument, Concat(op_.get_friendly_name(), ": ", parts...));
  }

  void RequireWholeRows(const BroadcastRows& rows, const ov::Tensor& tensor) const {
    if (rows.step() != 1) Fail("found ", tensor.get_shape(), ", whose rows are single numbers");
  }

  void ReadQueries(const AttentionInputs& inputs) {
    const ov::Tensor& q = *inputs[Index(AttentionInput::kQuery)];
    const ov::Shape& shape = q.get_shape();
    made_.batches = shape[0];
    is_packed_ = inputs[Index(AttentionInput::kKey)] == nullptr;
    if (shape.size() == 4) {
      made_.heads = shape[1];
      made_.size = shape[3];
    } else {
      made_.heads = static_cast<uint64_t>(settings_.heads);
      const auto kv = static_cast<uint64_t>(settings_.kv_heads);
      made_.size = shape[2] / (is_packed_ ? made_.heads + 2 * kv : made_.heads);
    }
    made_.q = Heads(q, made_.size);
    made_.queries = made_.q.tokens;
  }

  void ReadKeys(const AttentionInputs& inputs) {
    if (is_packed_) {
      made_.kv_heads[0] = made_.kv_heads[1] = static_cast<uint64_t>(settings_.kv_heads);
      made_.kv[0] = made_.kv[1] = made_.q;
      made_.kv[0].data += made_.heads * made_.size;
      made_.kv[1].data += (made_.heads + made_.kv_heads[0]) * made_.size;
      return;
    }
    for (size_t i : {0, 1}) {
      const ov::Tensor& tensor = *inputs[Index(AttentionInput::kKey) + i];
      const ov::Shape& shape = tensor.get_shape();
      made_.kv_heads[i] = shape.size() == 4 ? shape[1] : static_cast<uint64_t>(settings_.kv_heads);
      made_.kv[i] = Heads(tensor, made_.size);
      const uint64_t width = shape.size() == 4 ? shape[3] : shape[2] / made_.kv_heads[i];
      if (shape[0] != made_.batches || width != made_.size ||
          made_.kv[i].tokens != made_.kv[0].tokens) {
        Fail("q ", inputs[Index(AttentionInput::kQuery)]->get_shape(), ", k ",
             inputs[Index(AttentionInput::kKey)]->get_shape(), " and v ",
             inputs[Index(AttentionInput::kValue)]->get_shape(), " do not fit together");
      }
    }
  }

  // Where the new rows begin in each sequence, and how many rows there are.
  void ReadPositions(const AttentionInputs& inputs) {
    const ov::Tensor* last = inputs[Index(AttentionInput::kLast)];
    made_.is_causal = last != nullptr;
    made_.starts.assign(made_.batches, 0);
    if (!made_.is_causal) return;
    const ov::Tensor& total = *inputs[Index(AttentionInput::kTotal)];
    if (last->get_size() != made_.batches || total.get_size() != 1) {
      Fail("expected the ends of ", made_.batches, " sequences and one total length, found ",
           last->get_shape(), " and ", total.get_shape());
    }
    total_ = total.data<const int32_t>()[0];
    const auto tokens = static_cast<int64_t>(made_.queries);
    for (uint64_t b = 0; b < made_.batches; ++b) {
      const int64_t end = int64_t{last->data<const int32_t>()[b]} + 1;
      // In a prompt, rows are padded at their ends.
      const int64_t start = tokens == total_ ? 0 : end - tokens;
      if (start < 0) Fail("sequence ", b, " has ", end, " tokens, ", tokens, " of them new");
      made_.starts[b] = static_cast<uint64_t>(start);
    }
  }

  void ReadAngles(const AttentionInputs& inputs) {
    const ov::Tensor* cos = inputs[Index(AttentionInput::kCos)];
    const ov::Tensor* sin = inputs[Index(AttentionInput::kSin)];
    if ((cos != nullptr || made_.is_causal) && made_.kv[0].tokens != made_.queries) {
      Fail("found ", made_.queries, " queries and ", made_.kv[0].tokens, " new keys");
    }
    if (cos == nullptr) return;
    if (!made_.is_causal) {
      const ov::Shape tokens{made_.batches, 1, made_.queries, made_.size};
      made_.rotation.cos.emplace(op_, *cos, tokens);
      made_.rotation.sin.emplace(op_, *sin, tokens);
      RequireWholeRows(*made_.rotation.cos, *cos);
      RequireWholeRows(*made_.rotation.sin, *sin);
      return;
    }
    const ov::Shape& table = cos->get_shape();
    if (table.size() != 2 || sin->get_shape() != table || table[1] * 2 > made_.size) {
      Fail("expected tables [positions, up to ", made_.size / 2, "] of cos and sin, found ", table,
           " and ", sin->get_shape());
    }
    uint64_t furthest = 0;
    for (uint64_t start : made_.starts) furthest = std::max(furthest, start + made_.queries);
    if (furthest > table[0]) {
      Fail("there are angles for ", table[0], " positions, ", furthest, " are needed");
    }
    made_.rotation.cos_table = cos->data<const float>();
    made_.rotation.sin_table = sin->data<const float>();
    made_.rotation.pairs = table[1];
    made_.rotation.is_interleaved = settings_.is_interleaved;
  }

  void BindCaches(const AttentionInputs& inputs) {
    made_.keys = made_.kv[0].tokens;
    if (settings_.cache < 0) return;
    made_.has_caches = true;
    const auto cache = [&](size_t i) -> KvCache& {
      const ov::Tensor& addresses = *inputs[Index(AttentionInput::kAddress)];
      return CacheAt(addresses.data<const int32_t>(), static_cast<size_t>(settings_.cache) + i);
    };
    for (size_t i : {0, 1}) {
      made_.past[i] = cache(i).Past();
      const bool has_past = made_.past[i].type != DataType::kUndefined;
      const Shape& past = made_.past[i].shape;
      if (has_past && (past.size() != 4 || past[0] != static_cast<int64_t>(made_.batches) ||
                       past[1] != static_cast<int64_t>(made_.kv_heads[i]) ||
                       past[3] != static_cast<int64_t>(made_.size))) {
        Fail("found a past ", ShapeText(past), ", expected [", made_.batches, ", ",
             made_.kv_heads[i], ", rows, ", made_.size, "]");
      }
      const uint64_t rows = has_past ? static_cast<uint64_t>(past[2]) : 0;
      if (i == 1 && rows != made_.past_rows)
        Fail("pasts of ", made_.past_rows, " and ", rows, " rows");
      made_.past_rows = rows;
    }
    if (made_.is_causal) {
      made_.rows = std::max(made_.past_rows, static_cast<uint64_t>(std::max<int64_t>(0, total_)));
      for (uint64_t b = 0; b < made_.batches; ++b) {
        if (made_.starts[b] > made_.past_rows || made_.starts[b] + made_.queries > made_.rows) {
          Fail("sequence ", b, " has ", made_.queries, " new tokens after ", made_.starts[b],
               "; the past has ", made_.past_rows, " rows, there is room for ", made_.rows);
        }
      }
    } else {
      made_.rows = made_.past_rows + made_.kv[0].tokens;
      std::fill(made_.starts.begin(), made_.starts.end(), made_.past_rows);
    }
    made_.keys = made_.rows;
    for (size_t i : {0, 1}) {
      made_.present[i] = cache(i).Present(
          {static_cast<int64_t>(made_.batches), static_cast<int64_t>(made_.kv_heads[i]),
           static_cast<int64_t>(made_.rows), static_cast<int64_t>(made_.size)});
      const DataType type = made_.present[i].type;
      const bool has_past = made_.past[i].type != DataType::kUndefined;
      if (!FitsFloat32(type) || type != made_.present[0].type ||
          (has_past && made_.past[i].type != type)) {
        Fail("caches of ", Name(made_.present[0].type), " and ", Name(type), ", a past of ",
             Name(made_.past[i].type));
      }
    }
  }

  void ReadBias(const AttentionInputs& inputs) {
    const ov::Tensor* bias = inputs[Index(AttentionInput::kBias)];
    if (bias == nullptr) return;
    made_.bias.emplace(op_, *bias,
                       ov::Shape{made_.batches, made_.heads, made_.queries, made_.keys});
    RequireWholeRows(*made_.bias, *bias);
  }

  const ov::Node& op_;
  const AttentionSettings& settings_;
  bool is_packed_ = false;
  int64_t total_ = 0;
  AttentionArguments made_;
};

}  // namespace

AttentionArguments ReadAttention(const ov::Node& op, const AttentionSettings& settings,
                                 const AttentionInputs& inputs) {
  return Reader(op, settings).Read(inputs);
}

}  // namespace tandem

#include "device/ops/attention.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/strings.h"
#include "device/ops/broadcast.h"
#include "device/parallel.h"
#include "kernels/kernels.h"
#include "kernels/rotary_embedding.h"

namespace tandem {
namespace {

// Below these, a second thread costs more than it saves.
constexpr uint64_t kSerialMacs = 100'000;
constexpr uint64_t kSerialElements = 16 * 1024;

// Heads in a tensor [b, h, s, d] or [b, s, width], as strides in elements.
struct Heads {
  const float* data = nullptr;
  uint64_t tokens = 0;
  uint64_t batch_stride = 0;
  uint64_t head_stride = 0;
  uint64_t token_stride = 0;

  Heads() = default;
  Heads(const ov::Tensor& tensor, uint64_t size) : data(tensor.data<const float>()) {
    const ov::Shape& shape = tensor.get_shape();
    if (shape.size() == 4) {
      tokens = shape[2];
      token_stride = size;
      head_stride = tokens * size;
      batch_stride = shape[1] * head_stride;
    } else {
      tokens = shape[1];
      token_stride = shape[2];
      head_stride = size;
      batch_stride = tokens * token_stride;
    }
  }

  const float* Row(uint64_t batch, uint64_t head, uint64_t token) const {
    return data + batch * batch_stride + head * head_stride + token * token_stride;
  }
};

// The rotary embedding of queries and new keys; none without angles.
struct Rotation {
  std::optional<BroadcastRows> cos;  // [b, 1, s, d]
  std::optional<BroadcastRows> sin;
  const float* cos_table = nullptr;  // [positions][pairs]
  const float* sin_table = nullptr;
  uint64_t pairs = 0;
  bool is_interleaved = false;

  bool exists() const { return cos || cos_table != nullptr; }

  // `row`: of all tokens; `position`: of the token in its sequence.
  void Apply(const float* x, uint64_t row, uint64_t position, uint64_t size, float* out) const {
    if (cos) {
      RotateRow(x, cos->Row(row), sin->Row(row), size, out);
    } else {
      RotatePairs(x, cos_table + position * pairs, sin_table + position * pairs, pairs,
                  is_interleaved, size, out);
    }
  }
};

// A row of f32 as elements of `type` at `to`.
void StoreRow(const float* row, uint64_t size, DataType type, std::byte* to) {
  if (type == DataType::kFloat32) {
    std::memcpy(to, row, size * sizeof(float));
    return;
  }
  for (uint64_t i = 0; i < size; ++i, to += sizeof(uint16_t)) {
    const uint16_t bits =
        type == DataType::kFloat16 ? ov::float16(row[i]).to_bits() : ov::bfloat16(row[i]).to_bits();
    std::memcpy(to, &bits, sizeof(bits));
  }
}

// One run of the operator.
class Run {
 public:
  Run(const ov::Node& op, const AttentionSettings& settings) : op_(op), settings_(settings) {}

  void operator()(const std::vector<const ov::Tensor*>& inputs, ov::Tensor& output) {
    ReadQueries(inputs);
    ReadKeys(inputs);
    ReadPositions(inputs);
    ReadAngles(inputs);
    MakeOutput(output);
    BindCaches(inputs);
    Prepare();
    if (const ov::Tensor* bias = inputs[Index(AttentionInput::kBias)]) {
      bias_.emplace(op_, *bias, ov::Shape{batches_, heads_, queries_, keys_});
      RequireWholeRows(*bias_, *bias);
    }
    Attend();
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

  void ReadQueries(const std::vector<const ov::Tensor*>& inputs) {
    const ov::Tensor& q = *inputs[Index(AttentionInput::kQuery)];
    const ov::Shape& shape = q.get_shape();
    batches_ = shape[0];
    is_packed_ = inputs[Index(AttentionInput::kKey)] == nullptr;
    if (shape.size() == 4) {
      heads_ = shape[1];
      size_ = shape[3];
    } else {
      heads_ = static_cast<uint64_t>(settings_.heads);
      const auto kv = static_cast<uint64_t>(settings_.kv_heads);
      size_ = shape[2] / (is_packed_ ? heads_ + 2 * kv : heads_);
    }
    q_ = Heads(q, size_);
    queries_ = q_.tokens;
  }

  void ReadKeys(const std::vector<const ov::Tensor*>& inputs) {
    if (is_packed_) {
      kv_heads_[0] = kv_heads_[1] = static_cast<uint64_t>(settings_.kv_heads);
      kv_[0] = kv_[1] = q_;
      kv_[0].data += heads_ * size_;
      kv_[1].data += (heads_ + kv_heads_[0]) * size_;
      return;
    }
    for (size_t i : {0, 1}) {
      const ov::Tensor& tensor = *inputs[Index(AttentionInput::kKey) + i];
      const ov::Shape& shape = tensor.get_shape();
      kv_heads_[i] = shape.size() == 4 ? shape[1] : static_cast<uint64_t>(settings_.kv_heads);
      kv_[i] = Heads(tensor, size_);
      const uint64_t width = shape.size() == 4 ? shape[3] : shape[2] / kv_heads_[i];
      if (shape[0] != batches_ || width != size_ || kv_[i].tokens != kv_[0].tokens) {
        Fail("q ", inputs[Index(AttentionInput::kQuery)]->get_shape(), ", k ",
             inputs[Index(AttentionInput::kKey)]->get_shape(), " and v ",
             inputs[Index(AttentionInput::kValue)]->get_shape(), " do not fit together");
      }
    }
  }

  // Where the new rows begin in each sequence, and how many rows there are.
  void ReadPositions(const std::vector<const ov::Tensor*>& inputs) {
    const ov::Tensor* last = inputs[Index(AttentionInput::kLast)];
    is_causal_ = last != nullptr;
    starts_.assign(batches_, 0);
    if (!is_causal_) return;
    const ov::Tensor& total = *inputs[Index(AttentionInput::kTotal)];
    if (last->get_size() != batches_ || total.get_size() != 1) {
      Fail("expected the ends of ", batches_, " sequences and one total length, found ",
           last->get_shape(), " and ", total.get_shape());
    }
    total_ = total.data<const int32_t>()[0];
    const auto tokens = static_cast<int64_t>(queries_);
    for (uint64_t b = 0; b < batches_; ++b) {
      const int64_t end = int64_t{last->data<const int32_t>()[b]} + 1;
      // In a prompt, rows are padded at their ends.
      const int64_t start = tokens == total_ ? 0 : end - tokens;
      if (start < 0) Fail("sequence ", b, " has ", end, " tokens, ", tokens, " of them new");
      starts_[b] = static_cast<uint64_t>(start);
    }
  }

  void ReadAngles(const std::vector<const ov::Tensor*>& inputs) {
    const ov::Tensor* cos = inputs[Index(AttentionInput::kCos)];
    const ov::Tensor* sin = inputs[Index(AttentionInput::kSin)];
    if ((cos != nullptr || is_causal_) && kv_[0].tokens != queries_) {
      Fail("found ", queries_, " queries and ", kv_[0].tokens, " new keys");
    }
    if (cos == nullptr) return;
    if (!is_causal_) {
      const ov::Shape tokens{batches_, 1, queries_, size_};
      rotation_.cos.emplace(op_, *cos, tokens);
      rotation_.sin.emplace(op_, *sin, tokens);
      RequireWholeRows(*rotation_.cos, *cos);
      RequireWholeRows(*rotation_.sin, *sin);
      return;
    }
    const ov::Shape& table = cos->get_shape();
    if (table.size() != 2 || sin->get_shape() != table || table[1] * 2 > size_) {
      Fail("expected tables [positions, up to ", size_ / 2, "] of cos and sin, found ", table,
           " and ", sin->get_shape());
    }
    const uint64_t furthest = *std::max_element(starts_.begin(), starts_.end()) + queries_;
    if (furthest > table[0]) {
      Fail("there are angles for ", table[0], " positions, ", furthest, " are needed");
    }
    rotation_.cos_table = cos->data<const float>();
    rotation_.sin_table = sin->data<const float>();
    rotation_.pairs = table[1];
    rotation_.is_interleaved = settings_.is_interleaved;
  }

  void MakeOutput(ov::Tensor& output) {
    if (settings_.merges_heads) {
      output.set_shape({batches_, queries_, heads_ * size_});
    } else {
      output.set_shape({batches_, heads_, queries_, size_});
    }
    out_ = output.data<float>();
    out_token_stride_ = settings_.merges_heads ? heads_ * size_ : size_;
    out_head_stride_ = settings_.merges_heads ? size_ : queries_ * size_;
    out_batch_stride_ = heads_ * queries_ * size_;
  }

  void BindCaches(const std::vector<const ov::Tensor*>& inputs) {
    keys_ = kv_[0].tokens;
    if (settings_.cache < 0) return;
    const auto cache = [&](size_t i) -> KvCache& {
      const ov::Tensor& addresses = *inputs[Index(AttentionInput::kAddress)];
      return CacheAt(addresses.data<const int32_t>(), static_cast<size_t>(settings_.cache) + i);
    };
    for (size_t i : {0, 1}) {
      past_[i] = cache(i).Past();
      const bool has_past = past_[i].type != DataType::kUndefined;
      const Shape& past = past_[i].shape;
      if (has_past && (past.size() != 4 || past[0] != static_cast<int64_t>(batches_) ||
                       past[1] != static_cast<int64_t>(kv_heads_[i]) ||
                       past[3] != static_cast<int64_t>(size_))) {
        Fail("found a past ", ShapeText(past), ", expected [", batches_, ", ", kv_heads_[i],
             ", rows, ", size_, "]");
      }
      const uint64_t rows = has_past ? static_cast<uint64_t>(past[2]) : 0;
      if (i == 1 && rows != past_rows_) Fail("pasts of ", past_rows_, " and ", rows, " rows");
      past_rows_ = rows;
    }
    if (is_causal_) {
      rows_ = std::max(past_rows_, static_cast<uint64_t>(std::max<int64_t>(0, total_)));
      for (uint64_t b = 0; b < batches_; ++b) {
        if (starts_[b] > past_rows_ || starts_[b] + queries_ > rows_) {
          Fail("sequence ", b, " has ", queries_, " new tokens after ", starts_[b],
               "; the past has ", past_rows_, " rows, there is room for ", rows_);
        }
      }
    } else {
      rows_ = past_rows_ + kv_[0].tokens;
      std::fill(starts_.begin(), starts_.end(), past_rows_);
    }
    keys_ = rows_;
    for (size_t i : {0, 1}) {
      present_[i] =
          cache(i).Present({static_cast<int64_t>(batches_), static_cast<int64_t>(kv_heads_[i]),
                            static_cast<int64_t>(rows_), static_cast<int64_t>(size_)});
      const DataType type = present_[i].type;
      const bool has_past = past_[i].type != DataType::kUndefined;
      if (!FitsFloat32(type) || type != present_[0].type || (has_past && past_[i].type != type)) {
        Fail("caches of ", Name(present_[0].type), " and ", Name(type), ", a past of ",
             Name(past_[i].type));
      }
    }
  }

  // Rotates the queries, and brings past and new rows into the caches.
  void Prepare() {
    if (rotation_.exists()) {
      rotated_ = std::make_unique_for_overwrite<float[]>(batches_ * heads_ * queries_ * size_);
    }
    const bool has_cache = settings_.cache >= 0;
    if (!has_cache && rotation_.exists()) {
      rotated_keys_ =
          std::make_unique_for_overwrite<float[]>(batches_ * kv_heads_[0] * keys_ * size_);
    }
    const uint64_t q_tasks = rotation_.exists() ? batches_ * heads_ : 0;
    const uint64_t k_tasks = has_cache || rotation_.exists() ? batches_ * kv_heads_[0] : 0;
    const uint64_t v_tasks = has_cache ? batches_ * kv_heads_[1] : 0;
    const uint64_t tasks = q_tasks + k_tasks + v_tasks;
    if (tasks == 0) return;
    const bool copies = has_cache && present_[0].data != past_[0].data;
    const uint64_t elements = (queries_ + (copies ? rows_ : 0)) * size_;
    ParallelRanges(tasks, CeilDivide(kSerialElements, elements + 1),
                   [&](uint64_t first, uint64_t last) {
                     for (uint64_t task = first; task < last; ++task) {
                       if (task < q_tasks) {
                         RotateQueries(task / heads_, task % heads_);
                       } else if (task < q_tasks + k_tasks) {
                         AddRows(0, task - q_tasks);
                       } else {
                         AddRows(1, task - q_tasks - k_tasks);
                       }
                     }
                   });
    if (!rotation_.exists()) return;
    q_.data = rotated_.get();
    q_.token_stride = size_;
    q_.head_stride = queries_ * size_;
    q_.batch_stride = heads_ * q_.head_stride;
    if (has_cache) return;
    kv_[0].data = rotated_keys_.get();
    kv_[0].token_stride = size_;
    kv_[0].head_stride = keys_ * size_;
    kv_[0].batch_stride = kv_heads_[0] * kv_[0].head_stride;
  }

  void RotateQueries(uint64_t batch, uint64_t head) {
    float* to = rotated_.get() + (batch * heads_ + head) * queries_ * size_;
    for (uint64_t token = 0; token < queries_; ++token, to += size_) {
      rotation_.Apply(q_.Row(batch, head, token), batch * queries_ + token,
                      RotatedPosition(batch, token), size_, to);
    }
  }

  uint64_t RotatedPosition(uint64_t batch, uint64_t token) const {
    return is_causal_ ? starts_[batch] + token : 0;
  }

  // One head of keys (`kind` 0) or values (1): past rows, new rows, zeros.
  void AddRows(size_t kind, uint64_t head_of_all) {
    const uint64_t batch = head_of_all / kv_heads_[kind];
    const uint64_t head = head_of_all % kv_heads_[kind];
    const bool rotates = kind == 0 && rotation_.exists();
    if (settings_.cache < 0) {
      float* to = rotated_keys_.get() + head_of_all * keys_ * size_;
      for (uint64_t token = 0; token < keys_; ++token, to += size_) {
        rotation_.Apply(kv_[0].Row(batch, head, token), batch * keys_ + token,
                        RotatedPosition(batch, token), size_, to);
      }
      return;
    }
    const Tensor& present = present_[kind];
    const uint64_t row_bytes = size_ * BitWidth(present.type) / 8;
    std::byte* to = present.data + head_of_all * rows_ * row_bytes;
    const uint64_t start = starts_[batch];
    const uint64_t tokens = kv_[kind].tokens;
    if (present.data != past_[kind].data) {
      if (start > 0) {
        const std::byte* past = past_[kind].data + head_of_all * past_rows_ * row_bytes;
        std::memcpy(to, past, start * row_bytes);
      }
      std::memset(to + (start + tokens) * row_bytes, 0, (rows_ - start - tokens) * row_bytes);
    }
    to += start * row_bytes;
    std::unique_ptr<float[]> turned;
    if (rotates) turned = std::make_unique_for_overwrite<float[]>(size_);
    for (uint64_t token = 0; token < tokens; ++token, to += row_bytes) {
      const float* row = kv_[kind].Row(batch, head, token);
      if (rotates) {
        rotation_.Apply(row, batch * tokens + token, RotatedPosition(batch, token), size_,
                        turned.get());
        row = turned.get();
      }
      StoreRow(row, size_, present.type, to);
    }
  }

  void Attend() {
    static const AttentionKernel kernel = KernelsFor(ActiveIsa()).attention;
    if (keys_ == 0 || queries_ == 0) {
      std::fill_n(out_, batches_ * heads_ * queries_ * size_, 0.0F);  // a sum of nothing
      return;
    }
    // Heads that share keys and values run together, so that these are read once; unless there are
    // few queries, whose keys the cache holds anyway, and too few heads for all threads.
    const bool shares = kv_heads_[0] == kv_heads_[1];
    const uint64_t group = queries_ > 1 && shares ? heads_ / kv_heads_[0] : 1;  // heads of a task
    const uint64_t blocks = CeilDivide(queries_, kAttentionBlock);
    const uint64_t tasks = batches_ * heads_ / group * blocks;
    const uint64_t macs = 2 * group * std::min(queries_, kAttentionBlock) * keys_ * size_;
    ParallelRanges(tasks, CeilDivide(kSerialMacs, macs + 1), [&](uint64_t first, uint64_t last) {
      for (uint64_t task = first; task < last; ++task) {
        const uint64_t head = task / blocks * group;  // of all batches
        const uint64_t query = task % blocks * kAttentionBlock;
        kernel(HeadsFrom(head / heads_, head % heads_, group), query,
               std::min(query + kAttentionBlock, queries_));
      }
    });
  }

  AttentionHeads HeadsFrom(uint64_t batch, uint64_t head, uint64_t count) const {
    AttentionHeads heads;
    heads.heads = count;
    heads.queries = queries_;
    heads.keys = is_causal_ ? std::min(keys_, starts_[batch] + queries_) : keys_;
    heads.first_sees = is_causal_ ? starts_[batch] + 1 : 0;
    heads.size = size_;
    heads.scale = settings_.scale;
    heads.q = q_.Row(batch, head, 0);
    heads.q_stride = q_.token_stride;
    heads.q_head_stride = q_.head_stride;
    const auto rows_of = [&](size_t kind) -> const void* {
      const uint64_t served = head / (heads_ / kv_heads_[kind]);
      if (settings_.cache < 0) return kv_[kind].Row(batch, served, 0);
      const uint64_t rows = (batch * kv_heads_[kind] + served) * rows_;
      return present_[kind].data + rows * size_ * BitWidth(present_[kind].type) / 8;
    };
    heads.k = rows_of(0);
    heads.v = rows_of(1);
    heads.kv_stride = settings_.cache < 0 ? kv_[0].token_stride : size_;
    heads.kv_type = settings_.cache < 0 ? DataType::kFloat32 : present_[0].type;
    if (bias_) {
      const uint64_t row = (batch * heads_ + head) * queries_;
      heads.bias = bias_->Row(row);
      heads.bias_stride = bias_->stride();
      if (count > 1) {
        heads.bias_head_stride =
            static_cast<uint64_t>(bias_->Row(row + queries_) - bias_->Row(row));
      }
    }
    heads.out = out_ + batch * out_batch_stride_ + head * out_head_stride_;
    heads.out_stride = out_token_stride_;
    heads.out_head_stride = out_head_stride_;
    return heads;
  }

  const ov::Node& op_;
  const AttentionSettings& settings_;
  uint64_t batches_ = 0;
  uint64_t heads_ = 0;
  uint64_t queries_ = 0;
  uint64_t size_ = 0;
  uint64_t keys_ = 0;
  bool is_packed_ = false;
  bool is_causal_ = false;
  Heads q_;
  // Of keys and of values.
  Heads kv_[2];
  uint64_t kv_heads_[2] = {};
  Tensor past_[2];
  Tensor present_[2];
  uint64_t past_rows_ = 0;
  uint64_t rows_ = 0;  // of the caches
  int64_t total_ = 0;
  std::vector<uint64_t> starts_;  // by batch: rows before the new ones
  Rotation rotation_;
  std::unique_ptr<float[]> rotated_;
  std::unique_ptr<float[]> rotated_keys_;
  std::optional<BroadcastRows> bias_;
  float* out_ = nullptr;
  uint64_t out_token_stride_ = 0;
  uint64_t out_head_stride_ = 0;
  uint64_t out_batch_stride_ = 0;
};

}  // namespace

Attention::Attention(const ov::OutputVector& inputs, AttentionSettings settings)
    : Op(inputs), settings_(std::move(settings)) {
  constructor_validate_and_infer_types();
}

bool Attention::visit_attributes(ov::AttributeVisitor& visitor) {
  visitor.on_attribute("inputs", settings_.inputs);
  visitor.on_attribute("scale", settings_.scale);
  visitor.on_attribute("heads", settings_.heads);
  visitor.on_attribute("kv_heads", settings_.kv_heads);
  visitor.on_attribute("merges_heads", settings_.merges_heads);
  visitor.on_attribute("is_interleaved", settings_.is_interleaved);
  visitor.on_attribute("cache", settings_.cache);
  return true;
}

int64_t Attention::Find(AttentionInput input) const {
  const auto found =
      std::find(settings_.inputs.begin(), settings_.inputs.end(), static_cast<int64_t>(input));
  return found == settings_.inputs.end() ? -1 : found - settings_.inputs.begin();
}

void Attention::validate_and_infer_types() {
  NODE_VALIDATION_CHECK(this, get_input_size() == settings_.inputs.size(), "expected ",
                        settings_.inputs.size(), " inputs, found ", get_input_size());
  for (size_t i = 0; i < settings_.inputs.size(); ++i) {
    const int64_t input = settings_.inputs[i];
    NODE_VALIDATION_CHECK(this,
                          input >= 0 && input <= static_cast<int64_t>(AttentionInput::kAddress) &&
                              Find(static_cast<AttentionInput>(input)) == static_cast<int64_t>(i),
                          "input ", i, " is unknown or there twice");
    const auto type =
        input >= static_cast<int64_t>(AttentionInput::kLast) ? ov::element::i32 : ov::element::f32;
    NODE_VALIDATION_CHECK(this, get_input_element_type(i) == type, "expected ", type, ", found ",
                          get_input_element_type(i));
  }
  const auto has = [this](AttentionInput input) { return Find(input) >= 0; };
  const auto shape_of = [this](AttentionInput input) -> const ov::PartialShape& {
    return get_input_partial_shape(static_cast<size_t>(Find(input)));
  };
  NODE_VALIDATION_CHECK(this,
                        has(AttentionInput::kQuery) &&
                            has(AttentionInput::kKey) == has(AttentionInput::kValue) &&
                            has(AttentionInput::kCos) == has(AttentionInput::kSin) &&
                            has(AttentionInput::kLast) == has(AttentionInput::kTotal) &&
                            has(AttentionInput::kAddress) == (settings_.cache >= 0),
                        "inputs that belong together are missing");
  if (settings_.cache >= 0) {
    const ov::PartialShape& addresses = shape_of(AttentionInput::kAddress);
    const auto end = (settings_.cache + 2) * static_cast<int64_t>(kAddressElements);
    NODE_VALIDATION_CHECK(
        this, addresses.is_static() && addresses.size() == 1 && end <= addresses[0].get_length(),
        "caches ", settings_.cache, " and the next are not among ", addresses);
  }
  const ov::PartialShape& q = shape_of(AttentionInput::kQuery);
  const bool is_packed = !has(AttentionInput::kKey);
  NODE_VALIDATION_CHECK(this,
                        q.rank().is_static() && (q.size() == 3 || q.size() == 4) &&
                            q[q.size() - 1].is_static() && (!is_packed || q.size() == 3),
                        "expected queries [b, n, s, d] or [b, s, n * d], found ", q);
  ov::Dimension::value_type heads = settings_.heads;
  ov::Dimension::value_type size = 0;
  if (q.size() == 4) {
    NODE_VALIDATION_CHECK(this, q[1].is_static(), "expected a known number of heads, found ", q);
    heads = q[1].get_length();
    size = q[3].get_length();
  } else {
    const auto width = q[2].get_length();
    const auto parts = is_packed ? heads + 2 * settings_.kv_heads : heads;
    NODE_VALIDATION_CHECK(this, heads > 0 && settings_.kv_heads > 0 && width % parts == 0,
                          "expected ", parts, " heads in ", q);
    size = width / parts;
  }
  const auto check_heads = [&](ov::Dimension::value_type kv_heads) {
    NODE_VALIDATION_CHECK(this, kv_heads > 0 && heads > 0 && size > 0 && heads % kv_heads == 0,
                          kv_heads, " heads of keys or values for ", heads, " of queries");
  };
  if (is_packed) check_heads(settings_.kv_heads);
  for (AttentionInput input : {AttentionInput::kKey, AttentionInput::kValue}) {
    if (is_packed) break;
    const ov::PartialShape& x = shape_of(input);
    const bool has_heads = x.rank().is_static() && x.size() == 4;
    NODE_VALIDATION_CHECK(
        this,
        x.rank().is_static() && (x.size() == 3 || x.size() == 4) && x[0].compatible(q[0]) &&
            (!has_heads || x[1].is_static()) &&
            x[x.size() - 1] == ov::Dimension(has_heads ? size : size * settings_.kv_heads),
        "expected keys and values [b, m, t, d] or [b, t, m * d] with d = ", size, ", found ", x);
    check_heads(has_heads ? x[1].get_length() : settings_.kv_heads);
  }
  const ov::Dimension& tokens = q[q.size() == 4 ? 2 : 1];
  set_output_type(0, ov::element::f32,
                  settings_.merges_heads ? ov::PartialShape{q[0], tokens, heads * size}
                                         : ov::PartialShape{q[0], heads, tokens, size});
}

std::shared_ptr<ov::Node> Attention::clone_with_new_inputs(const ov::OutputVector& inputs) const {
  return std::make_shared<Attention>(inputs, settings_);
}

bool Attention::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
  std::vector<const ov::Tensor*> by_kind(static_cast<size_t>(AttentionInput::kAddress) + 1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    by_kind[static_cast<size_t>(settings_.inputs[i])] = &inputs[i];
  }
  Run(*this, settings_)(by_kind, outputs[0]);
  return true;
}

}  // namespace tandem

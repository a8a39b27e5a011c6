#include "device/ops/attention_run.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "device/ops/attention_arguments.h"
#include "device/parallel.h"
#include "kernels/kernels.h"
#include "kernels/stream_copy.h"

namespace tandem {
namespace {

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
  Run(const AttentionArguments& arguments, float scale) : in_(arguments), scale_(scale) {}

  void operator()(bool merges_heads, ov::Tensor& output) {
    MakeOutput(merges_heads, output);
    Prepare();
    Attend();
  }

 private:
  void MakeOutput(bool merges_heads, ov::Tensor& output) {
    if (merges_heads) {
      output.set_shape({in_.batches, in_.queries, in_.heads * in_.size});
    } else {
      output.set_shape({in_.batches, in_.heads, in_.queries, in_.size});
    }
    out_ = output.data<float>();
    out_token_stride_ = merges_heads ? in_.heads * in_.size : in_.size;
    out_head_stride_ = merges_heads ? in_.size : in_.queries * in_.size;
    out_batch_stride_ = in_.heads * in_.queries * in_.size;
  }

  // Rotates the queries, brings past and new rows into the caches, and all rows into panels.
  void Prepare() {
    const bool rotates = in_.rotation.exists();
    if (rotates) {
      rotated_ =
          std::make_unique_for_overwrite<float[]>(in_.batches * in_.heads * in_.queries * in_.size);
    }
    if (!in_.has_caches && rotates) {
      rotated_keys_ = std::make_unique_for_overwrite<float[]>(in_.batches * in_.kv_heads[0] *
                                                              in_.keys * in_.size);
    }
    if (HasPanels()) AllocatePanels();
    const uint64_t q_tasks = rotates ? in_.batches * in_.heads : 0;
    const uint64_t k_tasks =
        in_.has_caches || rotates || HasPanels() ? in_.batches * in_.kv_heads[0] : 0;
    const uint64_t v_tasks = in_.has_caches || HasPanels() ? in_.batches * in_.kv_heads[1] : 0;
    const uint64_t tasks = q_tasks + k_tasks + v_tasks;
    if (tasks == 0) return;
    const bool copies = in_.has_caches && in_.present[0].data != in_.past[0].data;
    const uint64_t elements =
        (in_.queries + (copies ? in_.rows : 0) + (HasPanels() ? in_.keys : 0)) * in_.size;
    ParallelRanges(tasks, CeilDivide(kSerialElements, elements + 1),
                   [&](uint64_t first, uint64_t last) {
                     for (uint64_t task = first; task < last; ++task) {
                       if (task < q_tasks) {
                         RotateQueries(task / in_.heads, task % in_.heads);
                       } else if (task < q_tasks + k_tasks) {
                         PrepareHead(0, task - q_tasks);
                       } else {
                         PrepareHead(1, task - q_tasks - k_tasks);
                       }
                     }
                   });
    if (!rotates) return;
    in_.q.data = rotated_.get();
    in_.q.token_stride = in_.size;
    in_.q.head_stride = in_.queries * in_.size;
    in_.q.batch_stride = in_.heads * in_.q.head_stride;
    if (in_.has_caches) return;
    in_.kv[0] = RotatedKeys();
  }

  Heads RotatedKeys() const {
    Heads keys = in_.kv[0];
    keys.data = rotated_keys_.get();
    keys.token_stride = in_.size;
    keys.head_stride = in_.keys * in_.size;
    keys.batch_stride = in_.kv_heads[0] * keys.head_stride;
    return keys;
  }

  bool HasPanels() const { return in_.queries > kFewQueries && in_.keys > 0; }

  void AllocatePanels() {
    const auto all = [&](size_t kind, uint64_t floats) {
      return std::make_unique_for_overwrite<float[]>(in_.batches * in_.kv_heads[kind] * floats);
    };
    panels_[0] = all(0, KvPanels::KeyFloats(in_.keys, in_.size));
    panels_[1] = all(1, KvPanels::ValueFloats(in_.keys, in_.size));
    key_squares_.resize(in_.batches * in_.kv_heads[0]);
  }

  // One head of keys (`kind` 0) or values (1).
  void PrepareHead(size_t kind, uint64_t head_of_all) {
    const uint64_t batch = head_of_all / in_.kv_heads[kind];
    const uint64_t head = head_of_all % in_.kv_heads[kind];
    const bool rotates = kind == 0 && in_.rotation.exists();
    if (in_.has_caches) {
      AddRows(kind, head_of_all);
    } else if (rotates) {
      float* to = rotated_keys_.get() + head_of_all * in_.keys * in_.size;
      for (uint64_t token = 0; token < in_.keys; ++token, to += in_.size) {
        in_.rotation.Apply(in_.kv[0].Row(batch, head, token), batch * in_.keys + token,
                           RotatedPosition(batch, token), in_.size, to);
      }
    }
    if (!HasPanels()) return;
    const KvSource source = Source(kind, batch, head);
    if (kind == 0) {
      key_squares_[head_of_all] =
          ActiveKernels().key_panels(source, KeysOf(batch), in_.size, PanelsOf(0, head_of_all));
    } else {
      ActiveKernels().value_panels(source, KeysOf(batch), in_.size, PanelsOf(1, head_of_all));
    }
  }

  // Where the rows of a head are, once they are prepared.
  KvSource Source(size_t kind, uint64_t batch, uint64_t head) const {
    if (!in_.has_caches) {
      const bool is_rotated = kind == 0 && rotated_keys_;
      const Heads rows = is_rotated ? RotatedKeys() : in_.kv[kind];
      return {DataType::kFloat32, rows.Row(batch, head, 0), rows.token_stride};
    }
    const Tensor& present = in_.present[kind];
    const uint64_t row = (batch * in_.kv_heads[kind] + head) * in_.rows;
    return {present.type, present.data + row * in_.size * BitWidth(present.type) / 8, in_.size};
  }

  // Whether the past is copied for the next run only: this one reads it where it is. A small one is
  // still in the cache then.
  bool Streams() const {
    constexpr uint64_t kLeastBytes = 256 * 1024;
    if (!in_.has_caches || HasPanels() || in_.present[0].data == in_.past[0].data ||
        in_.present[1].data == in_.past[1].data) {
      return false;
    }
    const uint64_t rows = in_.batches * (in_.kv_heads[0] + in_.kv_heads[1]) * in_.past_rows;
    return rows * in_.size * BitWidth(in_.present[0].type) / 8 >= kLeastBytes;
  }

  KvSource Past(size_t kind, uint64_t batch, uint64_t head) const {
    const Tensor& past = in_.past[kind];
    const uint64_t row = (batch * in_.kv_heads[kind] + head) * in_.past_rows;
    return {past.type, past.data + row * in_.size * BitWidth(past.type) / 8, in_.size};
  }

  float* PanelsOf(size_t kind, uint64_t head_of_all) const {
    const uint64_t floats = kind == 0 ? KvPanels::KeyFloats(in_.keys, in_.size)
                                      : KvPanels::ValueFloats(in_.keys, in_.size);
    return panels_[kind].get() + head_of_all * floats;
  }

  // Keys that the last query of a sequence sees.
  uint64_t KeysOf(uint64_t batch) const {
    return in_.is_causal ? std::min(in_.keys, in_.starts[batch] + in_.queries) : in_.keys;
  }

  void RotateQueries(uint64_t batch, uint64_t head) {
    float* to = rotated_.get() + (batch * in_.heads + head) * in_.queries * in_.size;
    for (uint64_t token = 0; token < in_.queries; ++token, to += in_.size) {
      in_.rotation.Apply(in_.q.Row(batch, head, token), batch * in_.queries + token,
                         RotatedPosition(batch, token), in_.size, to);
    }
  }

  uint64_t RotatedPosition(uint64_t batch, uint64_t token) const {
    return in_.is_causal ? in_.starts[batch] + token : 0;
  }

  // One head of the caches: past rows, new rows, zeros.
  void AddRows(size_t kind, uint64_t head_of_all) {
    const uint64_t batch = head_of_all / in_.kv_heads[kind];
    const uint64_t head = head_of_all % in_.kv_heads[kind];
    const bool rotates = kind == 0 && in_.rotation.exists();
    const Tensor& present = in_.present[kind];
    const uint64_t row_bytes = in_.size * BitWidth(present.type) / 8;
    std::byte* to = present.data + head_of_all * in_.rows * row_bytes;
    const uint64_t start = in_.starts[batch];
    const uint64_t tokens = in_.kv[kind].tokens;
    if (present.data != in_.past[kind].data) {
      if (start > 0) {
        const std::byte* past = in_.past[kind].data + head_of_all * in_.past_rows * row_bytes;
        if (Streams()) {
          StreamCopy(past, to, start * row_bytes);
        } else {
          std::memcpy(to, past, start * row_bytes);
        }
      }
      std::memset(to + (start + tokens) * row_bytes, 0, (in_.rows - start - tokens) * row_bytes);
    }
    to += start * row_bytes;
    std::unique_ptr<float[]> turned;
    if (rotates) turned = std::make_unique_for_overwrite<float[]>(in_.size);
    for (uint64_t token = 0; token < tokens; ++token, to += row_bytes) {
      const float* row = in_.kv[kind].Row(batch, head, token);
      if (rotates) {
        in_.rotation.Apply(row, batch * tokens + token, RotatedPosition(batch, token), in_.size,
                           turned.get());
        row = turned.get();
      }
      StoreRow(row, in_.size, present.type, to);
    }
  }

  void Attend() {
    if (in_.keys == 0 || in_.queries == 0) {
      std::fill_n(out_, in_.batches * in_.heads * in_.queries * in_.size,
                  0.0F);  // a sum of nothing
      return;
    }
    // Heads that share keys and values run together, so that these are read once; unless there are
    // few queries, whose keys the cache holds anyway, and too few heads for all threads.
    const bool shares = in_.kv_heads[0] == in_.kv_heads[1];
    const uint64_t group =
        in_.queries > 1 && shares ? in_.heads / in_.kv_heads[0] : 1;  // heads of a task
    const uint64_t blocks = CeilDivide(in_.queries, kAttentionBlock);
    const uint64_t tasks = in_.batches * in_.heads / group * blocks;
    const uint64_t macs = 2 * group * std::min(in_.queries, kAttentionBlock) * in_.keys * in_.size;
    ParallelRanges(tasks, CeilDivide(kSerialMacs, macs + 1), [&](uint64_t first, uint64_t last) {
      for (uint64_t task = first; task < last; ++task) {
        const uint64_t head = task / blocks * group;  // of all batches
        const uint64_t query = task % blocks * kAttentionBlock;
        ActiveKernels().attention(HeadsFrom(head / in_.heads, head % in_.heads, group), query,
                                  std::min(query + kAttentionBlock, in_.queries));
      }
    });
  }

  AttentionHeads HeadsFrom(uint64_t batch, uint64_t head, uint64_t count) const {
    AttentionHeads heads;
    heads.heads = count;
    heads.queries = in_.queries;
    heads.keys = KeysOf(batch);
    heads.first_sees = in_.is_causal ? in_.starts[batch] + 1 : 0;
    heads.size = in_.size;
    heads.scale = scale_;
    heads.q = in_.q.Row(batch, head, 0);
    heads.q_stride = in_.q.token_stride;
    heads.q_head_stride = in_.q.head_stride;
    const auto served = [&](size_t kind) { return head / (in_.heads / in_.kv_heads[kind]); };
    heads.k = Source(0, batch, served(0));
    heads.v = Source(1, batch, served(1));
    if (Streams()) {
      heads.past_k = Past(0, batch, served(0));
      heads.past_v = Past(1, batch, served(1));
      heads.past_keys = in_.starts[batch] / kKeysTogether * kKeysTogether;
    }
    if (HasPanels()) {
      const uint64_t key_head = batch * in_.kv_heads[0] + served(0);
      heads.panels.keys = PanelsOf(0, key_head);
      heads.panels.values = PanelsOf(1, batch * in_.kv_heads[1] + served(1));
      heads.panels.key_square = key_squares_[key_head];
    }
    if (in_.bias) {
      const uint64_t row = (batch * in_.heads + head) * in_.queries;
      heads.bias = in_.bias->Row(row);
      heads.bias_stride = in_.bias->stride();
      if (count > 1) {
        heads.bias_head_stride =
            static_cast<uint64_t>(in_.bias->Row(row + in_.queries) - in_.bias->Row(row));
      }
    }
    heads.out = out_ + batch * out_batch_stride_ + head * out_head_stride_;
    heads.out_stride = out_token_stride_;
    heads.out_head_stride = out_head_stride_;
    return heads;
  }

  AttentionArguments in_;  // once prepared, q and the keys without a cache are the rotated ones
  float scale_;
  std::unique_ptr<float[]> rotated_;
  std::unique_ptr<float[]> rotated_keys_;
  std::unique_ptr<float[]> panels_[2];  // KvPanels of each head of keys and of values
  std::vector<float> key_squares_;
  float* out_ = nullptr;
  uint64_t out_token_stride_ = 0;
  uint64_t out_head_stride_ = 0;
  uint64_t out_batch_stride_ = 0;
};

}  // namespace

void RunAttention(const ov::Node& op, const AttentionSettings& settings,
                  const AttentionInputs& inputs, ov::Tensor& output) {
  Run run(ReadAttention(op, settings, inputs), settings.scale);
  run(settings.merges_heads, output);
}

}  // namespace tandem

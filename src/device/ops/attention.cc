#include "device/ops/attention.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/strings.h"
#include "device/ops/broadcast.h"
#include "device/parallel.h"
#include "kernels/kernels.h"

namespace tandem {
namespace {

// Multiply-adds below which a second thread costs more than it saves.
constexpr uint64_t kSerialMacs = 200'000;

}  // namespace

Attention::Attention(const ov::OutputVector& inputs, float scale) : Op(inputs), scale_(scale) {
  constructor_validate_and_infer_types();
}

bool Attention::visit_attributes(ov::AttributeVisitor& visitor) {
  visitor.on_attribute("scale", scale_);
  return true;
}

void Attention::validate_and_infer_types() {
  NODE_VALIDATION_CHECK(this, get_input_size() == 3 || get_input_size() == 4,
                        "expected q, k, v and perhaps bias");
  for (size_t i = 0; i < get_input_size(); ++i) {
    NODE_VALIDATION_CHECK(this, get_input_element_type(i) == ov::element::f32,
                          "expected f32, found ", get_input_element_type(i));
  }
  const ov::PartialShape& q = get_input_partial_shape(0);
  const auto heads = [](const ov::PartialShape& x) { return x[1].get_length(); };
  for (size_t i = 0; i < 3; ++i) {
    const ov::PartialShape& x = get_input_partial_shape(i);
    NODE_VALIDATION_CHECK(this,
                          x.rank().is_static() && x.size() == 4 && x[0].compatible(q[0]) &&
                              x[1].is_static() && heads(x) > 0 && heads(q) % heads(x) == 0 &&
                              x[3].is_static() && x[3] == q[3],
                          "expected q [b, n, s, d], k and v [b, m, t, d], found ", q, " and ", x);
  }
  set_output_type(0, ov::element::f32, q);
}

std::shared_ptr<ov::Node> Attention::clone_with_new_inputs(const ov::OutputVector& inputs) const {
  return std::make_shared<Attention>(inputs, scale_);
}

bool Attention::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
  static const AttentionKernel kernel = KernelsFor(ActiveIsa()).attention;
  const ov::Shape& q = inputs[0].get_shape();
  const ov::Shape& k = inputs[1].get_shape();
  const ov::Shape& v = inputs[2].get_shape();
  if (k[0] != q[0] || v[0] != q[0] || v[2] != k[2]) {
    throw Error(ErrorCode::kInvalidArgument, Concat(get_friendly_name(), ": q ", q, ", k ", k,
                                                    " and v ", v, " do not fit together"));
  }
  outputs[0].set_shape(q);
  auto* out = outputs[0].data<float>();
  AttentionHead all;
  all.queries = q[2];
  all.keys = k[2];
  all.size = all.q_stride = all.kv_stride = all.out_stride = q[3];
  all.scale = scale_;
  if (all.keys == 0) {
    std::fill_n(out, outputs[0].get_size(), 0.0F);  // a sum of nothing
    return true;
  }
  std::optional<BroadcastRows> bias;
  if (inputs.size() == 4) bias.emplace(*this, inputs[3], ov::Shape{q[0], q[1], q[2], k[2]});

  // `x` of the head that serves head `head` of q.
  const auto head_of = [&q](const ov::Tensor& x, uint64_t batch, uint64_t head) {
    const ov::Shape& shape = x.get_shape();
    const uint64_t served = batch * shape[1] + head / (q[1] / shape[1]);
    return x.data<const float>() + served * shape[2] * shape[3];
  };
  const uint64_t blocks = CeilDivide(all.queries, kAttentionBlock);
  const uint64_t macs = 2 * std::min(all.queries, kAttentionBlock) * all.keys * all.size;
  const uint64_t grain = CeilDivide(kSerialMacs, std::max<uint64_t>(1, macs));
  ParallelRanges(q[0] * q[1] * blocks, grain, [&](uint64_t first, uint64_t last) {
    for (uint64_t task = first; task < last; ++task) {
      const uint64_t row = task / blocks;  // of batches and heads
      AttentionHead head = all;
      head.q = head_of(inputs[0], row / q[1], row % q[1]);
      head.k = head_of(inputs[1], row / q[1], row % q[1]);
      head.v = head_of(inputs[2], row / q[1], row % q[1]);
      if (bias) {
        head.bias = bias->Row(row * all.queries);
        head.bias_stride = bias->stride();
      }
      head.out = out + row * all.queries * all.size;
      const uint64_t query = task % blocks * kAttentionBlock;
      kernel(head, query, std::min(query + kAttentionBlock, all.queries));
    }
  });
  return true;
}

}  // namespace tandem

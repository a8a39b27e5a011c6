#include "run/weight_forms.h"

#include <cstring>

#include "device/parallel.h"

namespace tandem {
namespace {

MatrixSource SourceOf(const Matrix& matrix) {
  const auto n = static_cast<uint64_t>(matrix.n);
  const auto k = static_cast<uint64_t>(matrix.k);
  const auto block_n = static_cast<uint64_t>(matrix.block_n);
  const auto block_k = static_cast<uint64_t>(matrix.block_k);
  MatrixSource source;
  source.n = n;
  source.k = k;
  source.order = matrix.outputs_first ? MatrixOrder::kOutputsFirst : MatrixOrder::kInputsFirst;
  source.codes = {matrix.code_type, matrix.codes->bytes.data(),
                  static_cast<uint64_t>(matrix.row_elements)};
  source.default_zero_point = matrix.default_zero_point;
  if (matrix.scales) {
    const uint64_t row = matrix.outputs_first ? CeilDivide(k, block_k) : CeilDivide(n, block_n);
    source.scales = {{matrix.scales->type, matrix.scales->bytes.data(), row}, block_n, block_k};
  }
  if (matrix.zero_points) {
    source.zero_points = {{matrix.zero_point_type, matrix.zero_points->bytes.data(),
                           static_cast<uint64_t>(matrix.zero_point_row_elements)},
                          block_n,
                          block_k};
  }
  return source;
}

bool IsAligned(const Weight& weight) {
  const auto element = static_cast<uintptr_t>(std::max(8, BitWidth(weight.type))) / 8;
  return reinterpret_cast<uintptr_t>(weight.bytes.data()) % element == 0;
}

// A page of a file that is touched brings its neighbours with it, up to megabytes of them: below
// this, a copy takes less memory than the pages that it is in.
constexpr uint64_t kLeastMappedBytes = 64 * 1024;

WeightForm PlainForm(const Weight& weight) {
  WeightForm form;
  if (weight.file && IsAligned(weight) && weight.bytes.size() >= kLeastMappedBytes) {
    // Read-only pages: nobody writes through a constant.
    form.plain =
        Tensor{weight.type, weight.shape, const_cast<std::byte*>(weight.bytes.data()), weight.file};
    return form;
  }
  form.plain = AllocateTensor(weight.type, weight.shape);
  if (!weight.bytes.empty()) {
    std::memcpy(form.plain->data, weight.bytes.data(), weight.bytes.size());
  }
  form.private_bytes = weight.bytes.size();
  return form;
}

}  // namespace

Digest WeightForms::PlainKey(const Weight& weight) {
  DigestBuilder key;
  key.Add("plain") << store_.KeyOf(weight);
  return key.Finish();
}

Digest WeightForms::PackedKey(const Matrix& matrix) {
  DigestBuilder key;
  key.Add("packed").Add(matrix.n).Add(matrix.k).Add(int64_t{matrix.outputs_first});
  key.Add(static_cast<int64_t>(matrix.code_type)).Add(matrix.row_elements);
  key << store_.KeyOf(*matrix.codes);
  if (matrix.scales) {
    key.Add(matrix.block_n).Add(matrix.block_k) << store_.KeyOf(*matrix.scales);
    key.Add(static_cast<int64_t>(matrix.default_zero_point));
  }
  if (matrix.zero_points) {
    key.Add(static_cast<int64_t>(matrix.zero_point_type)).Add(matrix.zero_point_row_elements);
    key << store_.KeyOf(*matrix.zero_points);
  }
  return key.Finish();
}

WeightHandle WeightForms::Packed(const Matrix& matrix) {
  const Digest key = PackedKey(matrix);
  return bank_.Get(key, [&] {
    WeightForm form;
    form.packed = PackedMatrix::Pack(SourceOf(matrix), ParallelForTbb);
    form.key = key;
    form.private_bytes = form.bytes();
    return std::make_shared<const WeightSlot>(std::move(form));
  });
}

WeightHandle WeightForms::Rows(const Matrix& matrix) {
  if (WeightHandle packed = bank_.Find(PackedKey(matrix))) return packed;
  if (matrix.scales || !matrix.outputs_first) return Packed(matrix);
  return Plain(*matrix.codes);
}

WeightHandle WeightForms::Plain(const Weight& weight) {
  const Digest key = PlainKey(weight);
  return bank_.Get(key, [&] {
    WeightForm form = PlainForm(weight);
    form.key = key;
    return std::make_shared<const WeightSlot>(std::move(form));
  });
}

WeightHandle WeightForms::StoredPacked(const Digest& key, const PackedSpec& spec,
                                       const StoredBytes& stored) {
  return bank_.Get(key, [&] {
    WeightForm form;
    form.packed = PackedMatrix::View(spec, stored.bytes, stored.owner);
    form.key = key;
    form.private_bytes = stored.is_private ? form.bytes() : 0;
    return std::make_shared<const WeightSlot>(std::move(form));
  });
}

WeightHandle WeightForms::StoredPlain(const Digest& key, DataType type, const Shape& shape,
                                      const StoredBytes& stored) {
  return bank_.Get(key, [&] {
    WeightForm form;
    // Read-only: nobody writes through a constant.
    form.plain = Tensor{type, shape, const_cast<std::byte*>(stored.bytes.data()), stored.owner};
    form.key = key;
    form.private_bytes = stored.is_private ? form.bytes() : 0;
    return std::make_shared<const WeightSlot>(std::move(form));
  });
}

}  // namespace tandem

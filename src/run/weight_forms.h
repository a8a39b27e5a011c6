#pragma once

#include "device/weights_bank.h"
#include "graph/graph.h"
#include "weights/weight_store.h"

namespace tandem {

// Bytes of a form that somebody made before.
struct StoredBytes {
  ByteSpan bytes;
  std::shared_ptr<const void> owner;
  bool is_private = false;  // memory of this process, not of a file
};

// Gets weights of a graph from the bank, in the form that their use asks for. Safe from any thread.
class WeightForms {
 public:
  WeightForms(WeightStore& store, WeightsBank& bank) : store_(store), bank_(bank) {}

  // For SharedMatMul.
  WeightHandle Packed(const Matrix& matrix);

  // For SharedGather: packed, if somebody holds it so or it is quantized; else as it is in the
  // file.
  WeightHandle Rows(const Matrix& matrix);

  // As a tensor: a view of the mapped file, or a copy of what Tandem does not own or what is not
  // aligned in its file.
  WeightHandle Plain(const Weight& weight);

  // The same forms from where they are stored under their keys, unless somebody holds them.
  // `bytes` are used in place; `is_private` if they are memory of this process. Throw as
  // PackedMatrix::View.
  WeightHandle StoredPacked(const Digest& key, const PackedSpec& spec, const StoredBytes& stored);
  WeightHandle StoredPlain(const Digest& key, DataType type, const Shape& shape,
                           const StoredBytes& stored);

 private:
  Digest PackedKey(const Matrix& matrix);
  Digest PlainKey(const Weight& weight);

  WeightStore& store_;
  WeightsBank& bank_;
};

}  // namespace tandem

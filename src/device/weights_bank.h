#pragma once

#include <memory>
#include <optional>

#include "base/weak_cache.h"
#include "device/tensor.h"
#include "kernels/packed_matrix.h"
#include "weights/digest.h"

namespace tandem {

// A weight in memory, in the form in which something computes with it. Immutable.
struct WeightForm {
  // Exactly one of the two.
  std::optional<Tensor> plain;         // the bytes of the file, mapped or copied
  std::optional<PackedMatrix> packed;  // the layout of the CPU kernels

  // Of content and form: under which the bank has it.
  Digest key;

  // Memory that this form takes for itself: 0 for a mapped file.
  uint64_t private_bytes = 0;

  uint64_t bytes() const { return plain ? plain->bytes() : packed->bytes().size(); }
};

// A form with its number. Operators refer to weights by number, because that can be an input of a
// compiled function: one function then serves many weights. Numbers are those of the process.
class WeightSlot {
 public:
  explicit WeightSlot(WeightForm form);
  WeightSlot(const WeightSlot&) = delete;
  WeightSlot& operator=(const WeightSlot&) = delete;
  ~WeightSlot();

  const WeightForm& form() const { return form_; }
  int32_t number() const { return number_; }

  // The form in slot `number`. Throws Error(kInternal) when nobody holds such a form. Takes no
  // lock.
  static const WeightForm& At(int32_t number);

 private:
  WeightForm form_;
  int32_t number_;
};

// A form that is held.
using WeightHandle = std::shared_ptr<const WeightSlot>;

// One copy of every weight in every form, for all sessions of the process, by the digest of content
// and form. Who needs a form first makes it, later users share it; it goes with its last user.
using WeightsBank = WeakCache<Digest, const WeightSlot>;

}  // namespace tandem

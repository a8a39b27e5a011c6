#include "device/weights_bank.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

std::shared_ptr<const WeightSlot> NewSlot() {
  WeightForm form;
  form.plain = AllocateTensor(DataType::kFloat32, {2, 3});
  return std::make_shared<const WeightSlot>(std::move(form));
}

TEST(WeightsBank, SessionsShareAFormAndTheLastOneTakesItAlong) {
  WeightsBank bank;
  const Digest key{1, 2};
  WeightHandle prefill = bank.Get(key, NewSlot);
  WeightHandle decode = bank.Get(key, NewSlot);
  EXPECT_EQ(prefill, decode);
  prefill.reset();
  EXPECT_NE(bank.Find(key), nullptr);
  decode.reset();
  EXPECT_EQ(bank.Find(key), nullptr);
}

TEST(WeightSlot, IsFoundByItsNumberWhileItLives) {
  WeightHandle slot = NewSlot();
  const int32_t number = slot->number();
  EXPECT_EQ(&WeightSlot::At(number), &slot->form());
  slot.reset();
  EXPECT_TANDEM_ERROR(WeightSlot::At(number), ErrorCode::kInternal, "no weight in slot");
  EXPECT_TANDEM_ERROR(WeightSlot::At(-1), ErrorCode::kInternal, "slot -1");
  EXPECT_TANDEM_ERROR(WeightSlot::At(1 << 30), ErrorCode::kInternal, "no weight");
}

TEST(WeightSlot, NumbersAreUsedAgain) {
  WeightHandle slot = NewSlot();
  const int32_t number = slot->number();
  slot = nullptr;
  slot = NewSlot();
  EXPECT_EQ(slot->number(), number);
}

TEST(WeightSlot, ManySlotsKeepTheirForms) {
  std::vector<WeightHandle> slots;
  for (int i = 0; i < 3000; ++i) slots.push_back(NewSlot());
  for (const WeightHandle& slot : slots) {
    ASSERT_EQ(&WeightSlot::At(slot->number()), &slot->form());
  }
}

}  // namespace
}  // namespace tandem

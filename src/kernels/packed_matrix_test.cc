#include "kernels/packed_matrix.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/random_matrix.h"

namespace tandem {
namespace {

// Each output of the packed matrix is what DequantizeLinear would make of the source.
void ExpectEqualsSource(const MatrixSpec& spec, Layout layout) {
  const RandomMatrix matrix(spec);
  const PackedMatrix packed = PackedMatrix::Pack(matrix.source(), Serial);
  EXPECT_EQ(packed.layout(), layout) << Describe(spec);
  std::vector<float> row(spec.k);
  for (uint64_t n = 0; n < spec.n; ++n) {
    packed.CopyOutput(n, row.data());
    for (uint64_t k = 0; k < spec.k; ++k) {
      ASSERT_EQ(row[k], matrix.source().Value(n, k)) << Describe(spec) << " at " << n << ", " << k;
    }
  }
}

TEST(PackedMatrix, KeepsFloatsInTheirOwnType) {
  for (MatrixOrder order : {MatrixOrder::kInputsFirst, MatrixOrder::kOutputsFirst}) {
    ExpectEqualsSource({.n = 37, .k = 19, .order = order}, Layout::kF32);
    ExpectEqualsSource({.n = 37, .k = 19, .order = order, .type = DataType::kFloat16},
                       Layout::kF16);
    ExpectEqualsSource({.n = 37, .k = 19, .order = order, .type = DataType::kBfloat16},
                       Layout::kBf16);
  }
}

TEST(PackedMatrix, KeepsTheCodesOfQuantizedTypes) {
  for (DataType type : {DataType::kInt8, DataType::kUint8, DataType::kInt4, DataType::kUint4}) {
    const Layout layout = BitWidth(type) == 4 ? Layout::kU4 : Layout::kU8;
    for (MatrixOrder order : {MatrixOrder::kInputsFirst, MatrixOrder::kOutputsFirst}) {
      for (DataType zero_points : {DataType::kUndefined, type}) {
        MatrixSpec spec{
            .n = 21, .k = 70, .order = order, .type = type, .zero_point_type = zero_points};
        ExpectEqualsSource(spec, layout);  // blocks of 32 inputs
        spec.block_k = 0;
        ExpectEqualsSource(spec, layout);  // per output
        spec.block_n = 0;
        ExpectEqualsSource(spec, layout);  // per tensor
        spec.block_n = 5;
        spec.block_k = 16;
        ExpectEqualsSource(spec, layout);
      }
    }
  }
}

TEST(PackedMatrix, DequantizesWhatNoLayoutFits) {
  // One scale for each input, blocks that cut a group, zero points that are no codes.
  ExpectEqualsSource({.type = DataType::kInt8, .block_n = 0, .block_k = 1}, Layout::kF32);
  ExpectEqualsSource({.type = DataType::kUint4, .block_k = 12}, Layout::kF32);
  ExpectEqualsSource({.type = DataType::kUint4, .zero_point_type = DataType::kFloat32},
                     Layout::kF32);
}

TEST(PackedMatrix, ReadsPaddedAndMisalignedRows) {
  ExpectEqualsSource({.n = 5, .k = 9, .type = DataType::kUint4, .block_k = 0, .padding = 23},
                     Layout::kU4);
  ExpectEqualsSource({.n = 18, .k = 9, .misalignment = 1}, Layout::kF32);
  ExpectEqualsSource({.n = 18, .k = 9, .type = DataType::kFloat16, .misalignment = 3},
                     Layout::kF16);
}

TEST(PackedMatrix, HasTheZeroPointOfModelsThatLeaveItOut) {
  // MatMulNBits without zero points means half of the range.
  ExpectEqualsSource(
      {.order = MatrixOrder::kOutputsFirst, .type = DataType::kUint4, .default_zero_point = 8},
      Layout::kU4);
}

TEST(PackedMatrix, OneCommonZeroPointTakesNoRoom) {
  MatrixSpec spec{.n = 16, .k = 64, .type = DataType::kUint4, .default_zero_point = 8};
  const RandomMatrix without(spec);
  MatrixSource with = without.source();
  const std::vector<uint8_t> eights(16, 0x88);
  with.zero_points = with.scales;
  with.zero_points->values.type = DataType::kUint4;
  with.zero_points->values.data = AsBytes(eights).data();
  const PackedMatrix packed = PackedMatrix::Pack(with, Serial);
  EXPECT_EQ(packed.zero_points(0), nullptr);
  EXPECT_EQ(packed.bytes().size(), PackedMatrix::Pack(without.source(), Serial).bytes().size());
}

TEST(PackedMatrix, IsNotMuchLargerThanItsSource) {
  const MatrixSpec spec{.n = 1536, .k = 576, .type = DataType::kInt4};
  const RandomMatrix matrix(spec);
  const uint64_t source_bytes = spec.n * spec.k / 2 + spec.n * spec.k / 32 * 4;
  EXPECT_EQ(PackedMatrix::Pack(matrix.source(), Serial).bytes().size(), source_bytes);
}

TEST(PackedMatrix, IsReadFromWhereItWasStored) {
  for (DataType type : {DataType::kFloat32, DataType::kInt4, DataType::kUint8}) {
    const RandomMatrix matrix(
        {.n = 37, .k = 70, .type = type, .block_k = 0, .zero_point_type = type});
    const PackedMatrix packed = PackedMatrix::Pack(matrix.source(), Serial);
    const auto owner = std::make_shared<int>();
    const PackedMatrix view = PackedMatrix::View(packed.spec(), packed.bytes(), owner);
    EXPECT_EQ(owner.use_count(), 2);
    EXPECT_EQ(view.bytes().data(), packed.bytes().data()) << "not copied";
    std::vector<float> expected(70);
    std::vector<float> found(70);
    packed.CopyOutput(36, expected.data());
    view.CopyOutput(36, found.data());
    EXPECT_EQ(found, expected);
  }
}

TEST(PackedMatrix, BytesOfAnotherMatrixAreRefused) {
  const RandomMatrix matrix({.n = 37, .k = 70, .type = DataType::kInt4});
  const PackedMatrix packed = PackedMatrix::Pack(matrix.source(), Serial);
  const auto view = [&](auto change) {
    PackedSpec spec = packed.spec();
    change(spec);
    PackedMatrix::View(spec, packed.bytes(), nullptr);
  };
  const auto refuses = [&](auto change, const char* expected) {
    EXPECT_TANDEM_ERROR(view(change), ErrorCode::kInvalidModel, expected);
  };
  refuses([](PackedSpec& s) { s.n = 64; }, "bytes, expected");
  refuses([](PackedSpec& s) { s.n = 0; }, "0 outputs");
  refuses([](PackedSpec& s) { s.n = UINT64_MAX; }, "overflow");
  refuses([](PackedSpec& s) { s.k = 0; }, "0 inputs");
  refuses([](PackedSpec& s) { s.layout = static_cast<Layout>(9); }, "layout 9");
  refuses([](PackedSpec& s) { s.block_k = 0; }, "blocks of 0");
  refuses([](PackedSpec& s) { s.block_k = 5; }, "blocks of 5");
  refuses([](PackedSpec& s) { s.has_zero_points = true; }, "bytes, expected");
  EXPECT_TANDEM_ERROR(PackedMatrix::View(packed.spec(), packed.bytes().subspan(1), nullptr),
                      ErrorCode::kInvalidModel, "bytes, expected");
}

}  // namespace
}  // namespace tandem

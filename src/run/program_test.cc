#include "run/program.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using Kind = Program::ValueKind;

// A chain of calls: value 0 is the input, call i reads value i and makes value i + 1.
Program Chain(size_t calls, const Shape& shape) {
  Program program;
  program.values.push_back({.kind = Kind::kInput});
  for (size_t i = 0; i < calls; ++i) {
    Program::Value value;
    value.type = DataType::kFloat32;
    value.shape = shape;
    program.values.push_back(value);
    program.calls.push_back({.function = 0, .request = i % 2, .inputs = {i}, .outputs = {i + 1}});
  }
  return program;
}

TEST(PlaceIntermediates, AChainNeedsTwoBuffers) {
  Program program = Chain(12, {4, 8});
  PlaceIntermediates(program);
  EXPECT_EQ(program.buffer_bytes, (std::vector<uint64_t>{128, 128}));
  for (size_t i = 1; i < program.values.size(); ++i) {
    EXPECT_EQ(program.values[i].kind, Kind::kBuffer);
    if (i > 1) {
      EXPECT_NE(program.values[i].index, program.values[i - 1].index);
    }
  }
}

TEST(PlaceIntermediates, AValueThatIsReadLaterKeepsItsBuffer) {
  Program program = Chain(5, {2});
  program.calls[4].inputs.push_back(1);  // the first result is read by the last call
  PlaceIntermediates(program);
  for (size_t i = 2; i <= 5; ++i) {
    EXPECT_NE(program.values[i].index, program.values[1].index) << i;
  }
  EXPECT_EQ(program.buffer_bytes.size(), 3u);
}

TEST(PlaceIntermediates, BuffersAreSharedBetweenEqualSizesOnly) {
  Program program = Chain(3, {2});
  program.values[2].shape = {3};
  PlaceIntermediates(program);
  EXPECT_EQ(program.buffer_bytes, (std::vector<uint64_t>{8, 12}));
}

TEST(PlaceIntermediates, DynamicResultsStayInTheirRequest) {
  Program program = Chain(6, {-1});
  PlaceIntermediates(program);
  EXPECT_TRUE(program.buffer_bytes.empty());
  for (size_t i = 1; i < program.values.size(); ++i) {
    EXPECT_EQ(program.values[i].kind, Kind::kResult);
    EXPECT_FALSE(program.values[i].must_copy);
  }
}

TEST(PlaceIntermediates, DynamicResultsThatOutliveTheirRequestAreCopied) {
  Program program = Chain(6, {-1});
  program.calls[3].inputs.push_back(1);  // made by call 0, whose request runs again in call 2
  program.calls[2].inputs.push_back(2);  // made by call 1, whose request runs again in call 3
  PlaceIntermediates(program);
  EXPECT_TRUE(program.values[1].must_copy);
  EXPECT_FALSE(program.values[2].must_copy);
}

}  // namespace
}  // namespace tandem

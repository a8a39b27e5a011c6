#include "run/program_request.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "run/request_pool.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_function.h"

namespace tandem {
namespace {

using Kind = Program::ValueKind;

Port FloatPort(const std::string& name, const Shape& shape) {
  return {name, DataType::kFloat32, shape};
}

// out = in + 1, for any number of elements.
std::shared_ptr<FakeFunction> Increment(const Shape& shape) {
  return std::make_shared<FakeFunction>(
      std::vector{FloatPort("in", shape)}, std::vector{FloatPort("out", shape)},
      [shape](FakeFunction::Run& run) {
        const Tensor in = run.inputs[0];
        const Tensor out = IsStatic(shape) ? run.outputs[0] : run.resize(0, in.shape);
        for (uint64_t i = 0; i < ElementCount(in.shape); ++i) Floats(out)[i] = Floats(in)[i] + 1;
      });
}

// `calls` times Increment, from the program's input to its output; with the result of the first
// call as a second output, if `returns_first`.
std::shared_ptr<Program> Chain(const std::shared_ptr<FakeFunction>& function, size_t calls,
                               bool returns_first = false) {
  const Shape shape = function->outputs()[0].shape;
  auto program = std::make_shared<Program>();
  program->functions = {{.function = function}};
  program->inputs = {"x"};
  program->values.push_back({.kind = Kind::kInput});
  for (size_t i = 0; i < calls; ++i) {
    Program::Value value;
    value.type = DataType::kFloat32;
    value.shape = shape;
    if (i + 1 == calls || (i == 0 && returns_first)) {
      value.kind = Kind::kOutput;
      value.index = program->outputs.size();
      program->outputs.push_back({"y" + std::to_string(i), DataType::kFloat32, shape});
    }
    program->values.push_back(value);
    program->calls.push_back({.function = 0, .request = i % 2, .inputs = {i}, .outputs = {i + 1}});
  }
  PlaceIntermediates(*program);
  return program;
}

// Tensors of a caller: given ones for the inputs; outputs as bound, or allocated.
class CallerTensors : public RunTensors {
 public:
  Tensor Input(size_t index) override { return inputs.at(index); }
  Tensor Output(size_t index, const Shape& shape) override {
    if (outputs.size() <= index) outputs.resize(index + 1);
    if (outputs[index].data == nullptr) outputs[index] = AllocateTensor(DataType::kFloat32, shape);
    EXPECT_EQ(outputs[index].shape, shape);
    return outputs[index];
  }

  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

Tensor Floats4(float first) {
  Tensor tensor = AllocateTensor(DataType::kFloat32, {4});
  for (int i = 0; i < 4; ++i) Floats(tensor)[i] = first + static_cast<float>(i);
  return tensor;
}

class ProgramRequestTest : public ::testing::TestWithParam<Shape> {};

TEST_P(ProgramRequestTest, RunsTheCallsInOrder) {
  const auto function = Increment(GetParam());
  ProgramRequest request(Chain(function, 12, /*returns_first=*/true));
  CallerTensors caller;
  for (float start : {0.0F, 100.0F}) {
    caller.inputs = {Floats4(start)};
    request.Run(caller);
    EXPECT_EQ(Floats(caller.outputs[0])[3], start + 4);
    EXPECT_EQ(Floats(caller.outputs[1])[3], start + 15);
  }
  EXPECT_EQ(function->runs, 24);
  EXPECT_LE(function->requests, 2);
}

TEST_P(ProgramRequestTest, MeasuresCallsAndTheirOperatorsWhenAsked) {
  ProgramRequest request(Chain(Increment(GetParam()), 3));
  CallerTensors caller;
  caller.inputs = {Floats4(0)};
  RunTimes times;
  request.Run(caller, &times);
  EXPECT_EQ(Floats(caller.outputs[0])[0], 3);
  ASSERT_EQ(times.calls.size(), 3u);
  const auto contains = [](const Interval& outer, const Interval& inner) {
    return outer.start_ns <= inner.start_ns &&
           inner.start_ns + inner.duration_ns <= outer.start_ns + outer.duration_ns;
  };
  for (size_t call = 0; call < 3; ++call) {
    EXPECT_EQ(times.calls[call].number, call);
    EXPECT_TRUE(contains(times.time, times.calls[call].time));
    ASSERT_EQ(times.calls[call].ops.size(), 1u);
    EXPECT_TRUE(contains(times.calls[call].time, times.calls[call].ops[0].time));
  }
}

TEST_P(ProgramRequestTest, AnOutputOverAnInputIsWrittenWhenAllIsRead) {
  ProgramRequest request(Chain(Increment(GetParam()), 3, /*returns_first=*/true));
  CallerTensors caller;
  const Tensor shared = Floats4(0);
  caller.inputs = {shared};
  caller.outputs = {shared};
  request.Run(caller);
  EXPECT_EQ(Floats(shared)[0], 1);
  EXPECT_EQ(Floats(caller.outputs[1])[0], 3);
}

TEST_P(ProgramRequestTest, AnotherRunAfterAFailureIsRight) {
  const auto function = Increment(GetParam());
  function->fail_run = 2;
  ProgramRequest request(Chain(function, 3));
  CallerTensors caller;
  caller.inputs = {Floats4(0)};
  EXPECT_TANDEM_ERROR(request.Run(caller), ErrorCode::kDevice, "as told to");
  caller.inputs = {Floats4(5)};
  request.Run(caller);
  EXPECT_EQ(Floats(caller.outputs[0])[0], 8);
}

INSTANTIATE_TEST_SUITE_P(StaticAndDynamic, ProgramRequestTest,
                         ::testing::Values(Shape{4}, Shape{-1}));

TEST(ProgramRequest, StaticOutputsAreWrittenInPlace) {
  bool in_place = false;
  Tensor bound = Floats4(0);
  const auto function = std::make_shared<FakeFunction>(
      std::vector{FloatPort("in", {4})}, std::vector{FloatPort("out", {4})},
      [&](FakeFunction::Run& run) { in_place = run.outputs[0].data == bound.data; });
  ProgramRequest request(Chain(function, 1));
  CallerTensors caller;
  caller.inputs = {Floats4(1)};
  caller.outputs = {bound};
  request.Run(caller);
  EXPECT_TRUE(in_place);
}

TEST(ProgramRequest, ACacheThatIsChangedInPlaceMayBeOneBuffer) {
  bool in_place = false;
  const Tensor larger = AllocateTensor(DataType::kFloat32, {5});
  Tensor cache{DataType::kFloat32, {4}, larger.data, larger.owner};
  const auto function = std::make_shared<FakeFunction>(
      std::vector{FloatPort("past", {4})}, std::vector{FloatPort("present", {4})},
      [&](FakeFunction::Run& run) { in_place = run.outputs[0].data == run.inputs[0].data; });
  const auto program = Chain(function, 1);
  program->in_place = {{0, 0}};
  ProgramRequest request(program);
  CallerTensors caller;
  caller.inputs = {cache};
  caller.outputs = {cache};
  request.Run(caller);
  EXPECT_TRUE(in_place);
  // Shifted by an element it is not the same buffer any more.
  caller.outputs[0].data += sizeof(float);
  request.Run(caller);
  EXPECT_FALSE(in_place);
}

// The keys of an attention, which adds one to its past; and a function that reads the past, too.
class CachedProgram {
 public:
  explicit CachedProgram(bool is_read_later) {
    const auto attention = std::make_shared<FakeFunction>(
        std::vector{Port{"tandem.caches", DataType::kInt32, {kAddressElements}}},
        std::vector<Port>{}, [this](FakeFunction::Run& run) {
          KvCache& cache = CacheAt(reinterpret_cast<const int32_t*>(run.inputs[0].data), 0);
          const Tensor past = cache.Past();
          const Tensor present = cache.Present({4});
          in_place = present.data == past.data;
          for (int i = 0; i < 4; ++i) Floats(present)[i] = Floats(past)[i] + 1;
        });
    program_->functions = {{.function = attention}, {.function = Increment({4})}};
    program_->inputs = {"past"};
    program_->outputs = {{"present", DataType::kFloat32, {-1}}, {"y", DataType::kFloat32, {4}}};
    program_->values = {
        {.kind = Kind::kInput},
        {.kind = Kind::kOutput, .type = DataType::kFloat32, .shape = {-1}},
        {.kind = Kind::kOutput, .index = 1, .type = DataType::kFloat32, .shape = {4}}};
    program_->calls = {{.function = 0, .caches = {{.past = 0, .present = 1}}}};
    if (is_read_later) program_->calls.push_back({.function = 1, .inputs = {0}, .outputs = {2}});
  }

  std::shared_ptr<Program> program() const { return program_; }

  bool in_place = false;

 private:
  std::shared_ptr<Program> program_ = std::make_shared<Program>();
};

TEST(ProgramRequest, APastIsChangedInPlaceIfNobodyElseReadsIt) {
  for (bool is_read_later : {false, true}) {
    CachedProgram cached(is_read_later);
    ProgramRequest request(cached.program());
    CallerTensors caller;
    const Tensor both = Floats4(5);
    caller.inputs = {both};
    caller.outputs = {both};
    request.Run(caller);
    EXPECT_EQ(cached.in_place, !is_read_later);
    EXPECT_EQ(Floats(both)[0], 6) << "the present is where the caller wants it";
    if (!is_read_later) continue;
    EXPECT_EQ(Floats(caller.outputs[1])[0], 6) << "of the past, 5";
  }
}

TEST(RequestPool, MakesNoMoreRequestsThanItsLimit) {
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  const auto function = std::make_shared<FakeFunction>(
      std::vector{FloatPort("in", {4})}, std::vector{FloatPort("out", {4})},
      [&](FakeFunction::Run& run) {
        most = std::max<int>(most, ++running);
        std::this_thread::yield();
        Floats(run.outputs[0])[0] = Floats(run.inputs[0])[0] + 1;
        --running;
      });
  RequestPool pool(Chain(function, 1), 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 50; ++i) {
        CallerTensors caller;
        const auto value = static_cast<float>(t * 1000 + i);
        caller.inputs = {Floats4(value)};
        pool.Run(caller);
        EXPECT_EQ(Floats(caller.outputs[0])[0], value + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(function->requests, 2);
  EXPECT_LE(most, 2);
}

}  // namespace
}  // namespace tandem

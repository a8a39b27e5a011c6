#include "device/ov_device.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/clock.h"
#include "device/weights_bank.h"
#include "graph/lower.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_function.h"
#include "tests/support/graph_builder.h"
#include "tests/support/openvino.h"
#include "tests/support/random_matrix.h"

namespace tandem {
namespace {

class OvDeviceTest : public ::testing::Test {
 protected:
  std::shared_ptr<Function> Compile(const FunctionSource& source) {
    return cpu_->Compile(source, kExact);
  }

  std::shared_ptr<Device> cpu_ = TheOpenVino().GetDevice("CPU");
};

Tensor Filled(const Shape& shape, float start, float step = 1) {
  Tensor tensor = AllocateTensor(DataType::kFloat32, shape);
  for (uint64_t i = 0; i < ElementCount(shape); ++i) {
    Floats(tensor)[i] = start + step * static_cast<float>(i);
  }
  return tensor;
}

TEST_F(OvDeviceTest, ComputesATopologyAndWritesInPlace) {
  GraphBuilder b;
  b.Input("x").Input("y").Node("Sub", {"x", "y"}, {"d"}).Output("d");
  const auto function = Compile(SourceOf(b.graph()));
  ASSERT_EQ(function->inputs().size(), 2u);
  EXPECT_EQ(function->inputs()[1].name, "y");
  EXPECT_EQ(function->outputs()[0].shape, (Shape{2, 4}));
  const auto request = function->NewRequest();
  const Tensor out = AllocateTensor(DataType::kFloat32, {2, 4});
  const Tensor x = Filled({2, 4}, 10);
  const Tensor y = Filled({2, 4}, 1);
  request->SetInput(0, x);
  request->SetInput(1, y);
  request->SetOutput(0, out);
  request->Run();
  EXPECT_EQ(Floats(out)[0], 9);
  EXPECT_EQ(Floats(out)[7], 9);
  EXPECT_EQ(request->Output(0).data, out.data);
}

TEST_F(OvDeviceTest, ConstantsAreUsedWhereTheyAre) {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, Shape{512}).Constant("w", DataType::kFloat32, {512});
  b.Node("Add", {"x", "w"}, {"y"}).Output("y");
  FunctionSource source = SourceOf(b.graph());
  const Tensor w = Filled({512}, 100, 0);
  const auto users = w.owner.use_count();
  source.constants["w"] = w;
  const auto function = Compile(source);
  source.constants.clear();
  EXPECT_GT(w.owner.use_count(), users) << "the function holds the constant's memory";
  const auto request = function->NewRequest();
  const Tensor x = Filled({512}, 0);
  request->SetInput(0, x);
  request->Run();
  EXPECT_EQ(Floats(request->Output(0))[511], 611);
}

TEST_F(OvDeviceTest, DynamicShapesAndEmptyTensors) {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, Shape{-1, 4}).Input("y", DataType::kFloat32, Shape{-1, 4});
  b.Result("z", DataType::kFloat32, Shape{-1, 4});
  b.Node("Concat", {"x", "y"}, {"z"}, {{"axis", int64_t{0}}}).Output("z");
  const auto function = Compile(SourceOf(b.graph()));
  EXPECT_EQ(function->outputs()[0].shape, (Shape{-1, 4}));
  const auto request = function->NewRequest();
  const Tensor nothing{DataType::kFloat32, {0, 4}, nullptr, nullptr};
  const Tensor rows = Filled({3, 4}, 0);
  request->SetInput(0, nothing);
  request->SetInput(1, rows);
  request->Run();
  EXPECT_EQ(request->Output(0).shape, (Shape{3, 4}));
  EXPECT_EQ(Floats(request->Output(0))[11], 11);
}

TEST_F(OvDeviceTest, MeasuresWhatItWasCompiledToMeasure) {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, Shape{1000, 64});
  b.Constant("w", DataType::kFloat32, {64, 80}).Result("y", DataType::kFloat32, Shape{1000, 80});
  b.Node("MatMul", {"x", "w"}, {"y"}).Node("Softmax", {"y"}, {"z"}).Output("z");
  const Graph graph = Lower(b.graph());
  const RandomMatrix source({.n = 80, .k = 64}, 1);
  WeightForm form;
  form.packed = PackedMatrix::Pack(source.source(), Serial);
  const auto w = std::make_shared<const WeightSlot>(std::move(form));
  const Tensor slots = AllocateTensor(DataType::kInt32, {1});
  reinterpret_cast<int32_t*>(slots.data)[0] = w->number();
  const Tensor x = Filled({1000, 64}, 0, 1e-5F);
  const auto measured = [&](const Properties& properties) {
    const auto function = cpu_->Compile(SourceOf(graph), properties);
    const auto request = function->NewRequest();
    request->SetInput(0, x);
    request->SetInput(1, slots);
    OpTimes times;
    for (int run = 0; run < 2; ++run) {
      times.clear();
      const int64_t start_ns = NowNs();
      request->Run(&times);
      const Interval all = Since(start_ns);
      int64_t sum_ns = 0;
      for (const OpTime& op : times) {
        EXPECT_GE(op.time.start_ns, all.start_ns);
        sum_ns += op.time.duration_ns;
      }
      EXPECT_LE(sum_ns, all.duration_ns);
    }
    return times;
  };
  EXPECT_TRUE(measured(kExact).empty());
  Properties profiling = kExact;
  profiling[kProfilingProperty] = "YES";
  std::map<std::string, std::string> executors;
  for (const OpTime& op : measured(profiling)) {
    executors[op.op->type] = op.op->executor;
    EXPECT_FALSE(op.op->kernel.empty());
  }
  EXPECT_EQ(executors, (std::map<std::string, std::string>{{"SharedMatMul", kInOpenVino},
                                                           {"Softmax", kOnOpenVino}}));
}

TEST_F(OvDeviceTest, ATensorThatDoesNotFitIsNamed) {
  GraphBuilder b;
  b.Input("x").Node("Relu", {"x"}, {"y"}).Output("y");
  const auto request = Compile(SourceOf(b.graph()))->NewRequest();
  EXPECT_TANDEM_ERROR(request->SetInput(0, Filled({4, 2}, 0)), ErrorCode::kInvalidArgument, "'x'",
                      "found f32[4,2]", "expected f32[2,4]");
}

TEST_F(OvDeviceTest, AnUnknownOperatorIsUnsupported) {
  GraphBuilder b;
  b.Input("x").Node("NoSuchOperator", {"x"}, {"y"}).Output("y");
  EXPECT_TANDEM_ERROR(Compile(SourceOf(b.graph())), ErrorCode::kUnsupported, "NoSuchOperator");
}

TEST_F(OvDeviceTest, PropertiesAreCheckedByNameAndValue) {
  EXPECT_NO_THROW(cpu_->CheckProperties(kExact));
  EXPECT_TANDEM_ERROR(cpu_->CheckProperties({{"INFERENCE_PRECISION_HINTS", "f32"}}),
                      ErrorCode::kInvalidArgument, "CPU has no property",
                      "did you mean 'INFERENCE_PRECISION_HINT'?");
  EXPECT_TANDEM_ERROR(cpu_->CheckProperties({{"INFERENCE_PRECISION_HINT", "f33"}}),
                      ErrorCode::kInvalidArgument, "f33");
}

TEST_F(OvDeviceTest, AnOutputThatIsNothingButAnInput) {
  GraphBuilder b;
  b.Input("x").Node("Dropout", {"x"}, {"y"}).Output("y");
  const auto request = Compile(SourceOf(b.graph()))->NewRequest();
  const Tensor x = Filled({2, 4}, 5);
  const Tensor y = AllocateTensor(DataType::kFloat32, {2, 4});
  request->SetInput(0, x);
  request->SetOutput(0, y);
  request->Run();
  EXPECT_EQ(Floats(y)[7], 12);
}

TEST_F(OvDeviceTest, AnInputThatIsAlsoAnOutput) {
  GraphBuilder b;
  b.Input("x").Input("y").Node("Identity", {"y"}, {"z"}).Node("Relu", {"x"}, {"r"});
  b.Output("z").Output("r");
  const auto request = Compile(SourceOf(b.graph()))->NewRequest();
  const Tensor x = Filled({2, 4}, -1);
  const Tensor y = Filled({2, 4}, 5);
  request->SetInput(0, x);
  request->SetInput(1, y);
  request->Run();
  EXPECT_EQ(Floats(request->Output(0))[7], 12);
  EXPECT_EQ(Floats(request->Output(1))[0], 0);
  EXPECT_EQ(Floats(request->Output(1))[7], 6);
}

TEST_F(OvDeviceTest, AnUnknownDeviceIsAnError) {
  EXPECT_TANDEM_ERROR(TheOpenVino().GetDevice("XPU"), ErrorCode::kInvalidArgument, "XPU");
}

// y = SharedMatMul(SharedGather(ids)): both operators, on one weight and on two.
class SharedOpsTest : public OvDeviceTest {
 protected:
  static WeightHandle Packed(const MatrixSource& source) {
    WeightForm form;
    form.packed = PackedMatrix::Pack(source, Serial);
    return std::make_shared<const WeightSlot>(std::move(form));
  }

  std::shared_ptr<Function> Lookup(int64_t rows, bool int8 = false) {
    GraphBuilder b;
    b.Input("ids", DataType::kInt64, Shape{rows}).Constant("table", DataType::kFloat32, {96, 64});
    b.Constant("w", DataType::kFloat32, {64, 80});
    b.Result("x", DataType::kFloat32, Shape{rows, 64});
    b.Result("y", DataType::kFloat32, Shape{rows, 80});
    b.Node("Gather", {"table", "ids"}, {"x"}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
    Graph graph = Lower(b.graph());
    if (int8) graph.nodes.back().attributes = {{"int8", int64_t{1}}};
    return Compile(SourceOf(graph));
  }

  static Tensor Ids(const std::vector<int64_t>& values) {
    Tensor ids = AllocateTensor(DataType::kInt64, {std::ssize(values)});
    std::copy(values.begin(), values.end(), reinterpret_cast<int64_t*>(ids.data));
    return ids;
  }

  static Tensor Slots(const WeightHandle& table, const WeightHandle& w) {
    Tensor slots = AllocateTensor(DataType::kInt32, {2});
    reinterpret_cast<int32_t*>(slots.data)[0] = table->number();
    reinterpret_cast<int32_t*>(slots.data)[1] = w->number();
    return slots;
  }

  RandomMatrix table_source_{{.n = 96, .k = 64, .order = MatrixOrder::kOutputsFirst}, 1};
  RandomMatrix w_source_{{.n = 80, .k = 64, .type = DataType::kInt4}, 2};
  RandomMatrix other_source_{{.n = 80, .k = 64}, 3};
};

TEST_F(SharedOpsTest, OneFunctionServesManyWeights) {
  const auto function = Lookup(3);
  const WeightHandle table = Packed(table_source_.source());
  for (const RandomMatrix* source : {&w_source_, &other_source_}) {
    const WeightHandle w = Packed(source->source());
    const auto request = function->NewRequest();
    const Tensor ids = Ids({5, 95, -1});
    const Tensor slots = Slots(table, w);
    request->SetInput(0, ids);
    request->SetInput(1, slots);
    request->Run();
    const Tensor y = request->Output(0);
    for (uint64_t n = 0; n < 80; ++n) {
      double expected = 0;
      for (uint64_t k = 0; k < 64; ++k) {
        expected += double{table_source_.source().Value(5, k)} * source->source().Value(n, k);
      }
      EXPECT_NEAR(Floats(y)[n], expected, 1e-3);
      EXPECT_EQ(Floats(y)[80 + n], Floats(y)[160 + n]) << "index -1 is the last row";
    }
  }
}

TEST_F(SharedOpsTest, ActivationsInEightBitsAreNear) {
  const auto function = Lookup(3, /*int8=*/true);
  const WeightHandle table = Packed(table_source_.source());
  const Tensor ids = Ids({5, 95, 7});
  for (const RandomMatrix* source : {&w_source_, &other_source_}) {
    const WeightHandle w = Packed(source->source());
    const auto request = function->NewRequest();
    const Tensor slots = Slots(table, w);
    request->SetInput(0, ids);
    request->SetInput(1, slots);
    request->Run();
    double error = 0;
    double size = 0;
    for (uint64_t n = 0; n < 80; ++n) {
      double expected = 0;
      for (uint64_t k = 0; k < 64; ++k) {
        expected += double{table_source_.source().Value(5, k)} * source->source().Value(n, k);
      }
      error += std::pow(Floats(request->Output(0))[n] - expected, 2);
      size += std::pow(expected, 2);
    }
    const double distance = std::sqrt(error / size);
    EXPECT_LT(distance, 2e-2);
    const bool is_quantized = source == &w_source_;
    EXPECT_EQ(distance > 1e-5, is_quantized) << "f32 weights are multiplied exactly";
  }
}

TEST_F(SharedOpsTest, AnIndexBeyondTheTableIsAnError) {
  const auto request = Lookup(1)->NewRequest();
  const WeightHandle table = Packed(table_source_.source());
  const WeightHandle w = Packed(w_source_.source());
  const Tensor slots = Slots(table, w);
  for (int64_t index : {96, -97}) {
    const Tensor ids = Ids({index});
    request->SetInput(0, ids);
    request->SetInput(1, slots);
    EXPECT_TANDEM_ERROR(request->Run(), ErrorCode::kInvalidArgument, "outside [-96, 95]");
  }
}

TEST_F(SharedOpsTest, AWeightOfAnotherShapeIsAnError) {
  const auto request = Lookup(1)->NewRequest();
  const WeightHandle table = Packed(table_source_.source());
  const Tensor ids = Ids({0});
  const Tensor slots = Slots(table, table);
  request->SetInput(0, ids);
  request->SetInput(1, slots);
  EXPECT_TANDEM_ERROR(request->Run(), ErrorCode::kInternal, "holds a weight [96,64]",
                      "expected [80,64]");
}

}  // namespace
}  // namespace tandem

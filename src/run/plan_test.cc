#include "run/plan.h"

#include <gmock/gmock.h>

#include "run/program_request.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_function.h"
#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() { options_.properties = {{"INFERENCE_PRECISION_HINT", "f32"}}; }

  Plan Make(const Graph& graph) {
    return MakePlan(*runtime_, *cpu_, options_, graph,
                    DeclinedNodes(graph, options_.has_shared_ops));
  }

  std::shared_ptr<Runtime> runtime_ = Runtime::Get();
  std::shared_ptr<Device> cpu_ = runtime_->openvino().GetDevice("CPU");
  BuildOptions options_;
};

TEST_F(PlanTest, TakesAGraphWhole) {
  GraphBuilder b;
  b.Input("x").Node("Relu", {"x"}, {"y"}).Node("Tanh", {"y"}, {"z"}).Output("z");
  const Plan plan = Make(b.graph());
  ASSERT_EQ(plan.partitions.size(), 1u);
  EXPECT_EQ(plan.partitions[0].nodes, (std::vector<NodeId>{0, 1}));
  EXPECT_THAT(plan.declined, ::testing::Each(std::nullopt));
}

TEST_F(PlanTest, FindsTheNodeThatTheDeviceLacksAndTakesTheRest) {
  GraphBuilder b;
  b.Input("x").Node("Relu", {"x"}, {"a"}).Node("Unheard", {"a"}, {"b"}).Node("Tanh", {"b"}, {"c"});
  b.Node("Unheard", {"c"}, {"d"}).Output("d");
  const Plan plan = Make(b.graph());
  ASSERT_EQ(plan.partitions.size(), 2u);
  EXPECT_EQ(plan.partitions[0].nodes, std::vector<NodeId>{0});
  EXPECT_EQ(plan.partitions[1].nodes, std::vector<NodeId>{2});
  EXPECT_THAT(*plan.declined[1], HasSubstr("Unheard"));
  EXPECT_TRUE(plan.declined[3]);
}

TEST_F(PlanTest, LeavesWhatTheDeviceGivesAnotherShapeOrTypeThanTheModel) {
  GraphBuilder b;
  b.Input("x")
      .Result("wider", DataType::kFloat32, Shape{2, 5})
      .Result("any", DataType::kFloat32, Shape{-1, 4});
  b.Result("integer", DataType::kInt32);
  b.Node("Relu", {"x"}, {"wider"}).Node("Tanh", {"x"}, {"any"}).Node("Sin", {"x"}, {"integer"});
  b.Output("wider").Output("any").Output("integer");
  const Plan plan = Make(b.graph());
  EXPECT_THAT(*plan.declined[0], HasSubstr("[2,4], which the model says is [2,5]"));
  EXPECT_FALSE(plan.declined[1]);
  EXPECT_THAT(*plan.declined[2], HasSubstr("f32, which the model says is i32"));
}

TEST_F(PlanTest, AFewIntegersAreNotWorthAPartition) {
  GraphBuilder b;
  b.Input("x").Input("s", DataType::kString);
  b.Result("shape", DataType::kInt64, Shape{2}).Result("parsed", DataType::kFloat32);
  b.Node("Shape", {"x"}, {"shape"}).Node("Parse", {"shape", "s"}, {"parsed"});
  b.Node("Relu", {"parsed"}, {"y"}).Output("y");
  const Plan plan = Make(b.graph());
  ASSERT_EQ(plan.partitions.size(), 1u);
  EXPECT_EQ(plan.partitions[0].nodes, std::vector<NodeId>{2});
  EXPECT_THAT(*plan.declined[0], HasSubstr("few integers"));
}

TEST_F(PlanTest, TheSameProgramTwiceSharesItsFunctionsAndWeights) {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, Shape{4, 64}).Constant("w", DataType::kFloat32, {64, 96});
  b.Result("y", DataType::kFloat32, Shape{4, 96}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  const auto first = Make(b.graph()).partitions[0].program;
  const auto second = Make(b.graph()).partitions[0].program;
  EXPECT_EQ(first->functions[0].function, second->functions[0].function);
  EXPECT_EQ(first->weights, second->weights);
  options_.has_shared_ops = false;
  const auto apart = Make(b.graph()).partitions[0].program;
  EXPECT_NE(first->functions[0].function, apart->functions[0].function);
  ASSERT_EQ(apart->constants.size(), 1u);
  EXPECT_EQ(apart->constants[0].name, "w");
}

TEST_F(PlanTest, AProgramCanBeMadeAgainForOtherThreads) {
  GraphBuilder b;
  b.Input("x").Node("Relu", {"x"}, {"y"}).Output("y");
  const auto program = Make(b.graph()).partitions[0].program;
  const auto one = WithThreads(*runtime_, *cpu_, options_, *program, 1);
  EXPECT_EQ(one->functions[0].function->threads(), 1);
  EXPECT_EQ(one->functions[0].function,
            WithThreads(*runtime_, *cpu_, options_, *program, 1)->functions[0].function);
}

// A stack of layers, folded and not, gives the same numbers.
TEST_F(PlanTest, FoldedLayersComputeWhatUnfoldedOnesDo) {
  GraphBuilder b;
  b.Input("x0", DataType::kFloat32, Shape{2, 32});
  for (int i = 0; i < 5; ++i) {
    const auto name = [i](const std::string& base) { return base + std::to_string(i); };
    std::vector<float> values(32 * 32);
    for (size_t j = 0; j < values.size(); ++j) {
      values[j] = static_cast<float>((j * 7 + static_cast<size_t>(i) * 13) % 11) * 0.02F - 0.1F;
    }
    b.ConstantValues(name("w"), DataType::kFloat32, {32, 32}, values);
    b.ConstantValues(name("gain"), DataType::kFloat32, {32},
                     std::vector<float>(32, 1 + 0.1F * static_cast<float>(i)));
    b.Node("MatMul", {name("x"), name("w")}, {name("m")});
    b.Node("Mul", {name("m"), name("gain")}, {name("g")}).Node("Tanh", {name("g")}, {name("t")});
    b.Node("Add", {name("x"), name("t")}, {"x" + std::to_string(i + 1)});
    b.Output(name("t"));
  }
  b.Output("x5");

  struct Tensors : RunTensors {
    Tensor Input(size_t) override { return x; }
    Tensor Output(size_t index, const Shape& shape) override {
      outputs.resize(std::max(outputs.size(), index + 1));
      return outputs[index] = AllocateTensor(DataType::kFloat32, shape);
    }
    Tensor x = AllocateTensor(DataType::kFloat32, {2, 32});
    std::vector<Tensor> outputs;
  };
  const auto run = [&](bool folds, size_t functions) {
    options_.folds = folds;
    options_.fold_limits = {.min_repeats = 2, .min_nodes = 2};
    const auto program = Make(b.graph()).partitions[0].program;
    EXPECT_EQ(program->functions.size(), functions);
    Tensors tensors;
    for (int i = 0; i < 64; ++i) Floats(tensors.x)[i] = static_cast<float>(i) * 0.01F;
    ProgramRequest(program).Run(tensors);
    return tensors.outputs;
  };
  const auto folded = run(true, 1);
  const auto unfolded = run(false, 1);
  ASSERT_EQ(folded.size(), 6u);
  for (size_t i = 0; i < folded.size(); ++i) {
    for (int j = 0; j < 64; ++j) {
      EXPECT_NEAR(Floats(folded[i])[j], Floats(unfolded[i])[j], 1e-6) << i << " " << j;
    }
  }
}

}  // namespace
}  // namespace tandem

#include "run/bundled_program.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "run/program_builder.h"
#include "run/request_pool.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_function.h"
#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

constexpr int64_t kSize = 48;

// Inputs, in order; outputs are allocated.
class Tensors : public RunTensors {
 public:
  Tensor Input(size_t index) override { return inputs.at(index); }
  Tensor Output(size_t index, const Shape& shape) override {
    outputs.resize(std::max(outputs.size(), index + 1));
    return outputs[index] = AllocateTensor(DataType::kFloat32, shape);
  }

  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

// Layers that fold, with a function of the host before them and a vector as an argument of each.
Graph Layers() {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, Shape{2, kSize}).Input("n", DataType::kInt64, Shape{1});
  b.ConstantValues<int64_t>("three", DataType::kInt64, {1}, {3});
  b.Result("sum", DataType::kInt64, Shape{1}).Result("scale", DataType::kFloat32, Shape{1});
  b.Node("Add", {"n", "three"}, {"sum"});
  b.Node("Cast", {"sum"}, {"scale"}, {{"to", static_cast<int64_t>(DataType::kFloat32)}});
  std::string value = "x";
  for (int layer = 0; layer < 4; ++layer) {
    const auto name = [&](const char* text) { return text + std::to_string(layer); };
    std::vector<float> weight(kSize * kSize);
    for (size_t i = 0; i < weight.size(); ++i) {
      weight[i] = static_cast<float>(i % 13 + static_cast<size_t>(layer)) / 100 - 0.06F;
    }
    b.ConstantValues<float>(name("w"), DataType::kFloat32, {kSize, kSize}, weight);
    b.ConstantValues<float>(name("b"), DataType::kFloat32, {kSize},
                            std::vector<float>(kSize, 0.1F * static_cast<float>(layer)));
    b.Node("MatMul", {value, name("w")}, {name("m")})
        .Node("Add", {name("m"), name("b")}, {name("a")});
    b.Node("Mul", {name("a"), "scale"}, {name("s")}).Node("Tanh", {name("s")}, {name("t")});
    value = name("t");
  }
  return b.Output(value).graph();
}

class BundledProgramTest : public ::testing::Test {
 protected:
  BundledProgramTest() {
    options_.properties = {{"INFERENCE_PRECISION_HINT", "f32"}};
    options_.fold_limits = {.min_repeats = 2, .min_nodes = 2};
    options_.is_self_contained = true;
    program_ = BuildProgram(*runtime_, *cpu_, options_, Layers());
    name_ = AddProgram(writer_, "CPU", program_);
    bytes_ = std::make_shared<const std::string>(writer_.ToBytes());
  }

  // The bundle with other text for the program; `name` becomes its name.
  std::shared_ptr<const Bundle> BundleWith(const std::string& text, std::string* name) {
    const auto owner = std::make_shared<const std::string>(text);
    const ByteSpan content = std::as_bytes(std::span(*owner));
    BundleWriter writer = writer_;
    *name = DigestOf(content).Hex();
    writer.Add("program/" + *name, DataType::kUint8, {std::ssize(content)}, content, owner);
    return Open(std::make_shared<const std::string>(writer.ToBytes()));
  }

  // Aligned as a mapping would be.
  static std::shared_ptr<const Bundle> Open(const std::shared_ptr<const std::string>& bytes) {
    const auto copy = std::make_shared<AlignedBuffer>(bytes->size());
    std::memcpy(copy->data(), bytes->data(), bytes->size());
    return Bundle::FromMemory("of the test", {copy->data(), copy->size()}, copy);
  }

  std::shared_ptr<const Program> Load(const std::shared_ptr<const Bundle>& bundle,
                                      const std::string& name) {
    return LoadProgram(*runtime_, *cpu_, options_.properties, bundle, name, Verify::kAuto);
  }

  static std::vector<float> Run(const std::shared_ptr<const Program>& program) {
    Tensors tensors;
    tensors.inputs = {AllocateTensor(DataType::kFloat32, {2, kSize}),
                      AllocateTensor(DataType::kInt64, {1})};
    for (int64_t i = 0; i < 2 * kSize; ++i)
      Floats(tensors.inputs[0])[i] = static_cast<float>(i) / 50 - 1;
    RequestPool(program, 1).Run(tensors);
    const float* y = Floats(tensors.outputs.at(0));
    return {y, y + 2 * kSize};
  }

  std::shared_ptr<Runtime> runtime_ = Runtime::Get();
  std::shared_ptr<Device> cpu_ = runtime_->openvino().GetDevice("CPU");
  BuildOptions options_;
  std::shared_ptr<const Program> program_;
  BundleWriter writer_;
  std::string name_;
  std::shared_ptr<const std::string> bytes_;
};

TEST_F(BundledProgramTest, ComputesWhatItDidBefore) {
  const std::vector<float> expected = Run(program_);
  ASSERT_NE(expected[0], 0);
  ASSERT_GT(program_->calls.size(), program_->functions.size()) << "it is folded";
  ASSERT_TRUE(program_->functions[0].host);
  const auto loaded = Load(Open(bytes_), name_);
  EXPECT_EQ(Run(loaded), expected);
  EXPECT_EQ(loaded->weights[0].second, program_->weights[0].second) << "forms are shared";
  EXPECT_EQ(loaded->functions[1].function, program_->functions[1].function) << "and functions";

  const std::string name = name_;
  program_ = nullptr;
  EXPECT_EQ(Run(Load(Open(bytes_), name)), expected) << "from the bundle alone";
}

TEST_F(BundledProgramTest, TheSameProgramHasTheSameName) {
  EXPECT_EQ(AddProgram(writer_, "CPU", program_), name_);
  EXPECT_EQ(writer_.ToBytes().size(), bytes_->size());
}

TEST_F(BundledProgramTest, WhatIsNotThereOrForAnotherDeviceIsAnError) {
  EXPECT_TANDEM_ERROR(Load(Open(bytes_), "0123"), ErrorCode::kInvalidModel, "bundle of the test",
                      "no 'program/0123'", name_.c_str());
  const std::string other = AddProgram(writer_, "GPU.0", program_);
  const auto both = std::make_shared<const std::string>(writer_.ToBytes());
  EXPECT_TANDEM_ERROR(Load(Open(both), other), ErrorCode::kUnsupported, "for the device GPU.0");
}

// Calls `visit` with every change of one value in `json`, and undoes it.
void ForEachChange(Json& root, Json& json, const std::function<void()>& visit) {
  if (json.is_structured()) {
    const Json whole = json;
    if (json.is_array() && !json.empty()) {
      json.erase(json.size() - 1);
      visit();
      json = whole;
    }
    for (auto& child : json) ForEachChange(root, child, visit);
    return;
  }
  const Json before = json;
  std::vector<Json> changes{nullptr, -1, 1'000'000'000'000, "no such thing", Json::array({7})};
  if (json.is_number_integer()) changes.emplace_back(json.get<int64_t>() + 1);
  for (const Json& change : changes) {
    json = change;
    visit();
  }
  json = before;
}

TEST_F(BundledProgramTest, ChangedProgramsAreErrorsOrRun) {
  const auto bundle = Open(bytes_);
  const ByteSpan text = bundle->Get("program/" + name_).bytes;
  Json json = Json::parse(reinterpret_cast<const char*>(text.data()),
                          reinterpret_cast<const char*>(text.data()) + text.size());
  size_t refused = 0;
  size_t changes = 0;
  ForEachChange(json, json, [&] {
    ++changes;
    try {
      std::string name;
      const auto changed = BundleWith(json.dump(), &name);
      Run(Load(changed, name));
    } catch (const std::exception&) {
      ++refused;
    }
  });
  EXPECT_GT(changes, 500u);
  EXPECT_GT(refused, changes / 2);
}

}  // namespace
}  // namespace tandem

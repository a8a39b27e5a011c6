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
  explicit BundledProgramTest(const Graph& graph = Layers()) {
    options_.properties = {{"INFERENCE_PRECISION_HINT", "f32"}};
    options_.fold_limits = {.min_repeats = 2, .min_nodes = 2};
    options_.is_self_contained = true;
    program_ = BuildProgram(*runtime_, *cpu_, options_, graph);
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

// An attention with a past of 4 rows, and a Relu of its result.
Graph AttentionWithCaches() {
  GraphBuilder b;
  const Shape rows{1, 2, -1, 8};
  b.Input("q", DataType::kFloat32, Shape{1, 1, 64}).Input("past_key", DataType::kFloat32, rows);
  b.Input("past_value", DataType::kFloat32, rows).Input("last", DataType::kInt32, Shape{1});
  b.Input("total", DataType::kInt32, Shape{1}).Result("y", DataType::kFloat32, Shape{1, 1, 32});
  b.Result("present_key", DataType::kFloat32, rows);
  b.Result("present_value", DataType::kFloat32, rows);
  b.Node("GroupQueryAttention", {"q", "", "", "past_key", "past_value", "last", "total"},
         {"y", "present_key", "present_value"},
         {{"num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}}, "com.microsoft");
  b.Node("Relu", {"y"}, {"z"});
  return b.Output("z").Output("present_key").Output("present_value").graph();
}

class BundledCachesTest : public BundledProgramTest {
 protected:
  BundledCachesTest() : BundledProgramTest(AttentionWithCaches()) {}

  static Tensor Numbers(const Shape& shape, float start) {
    Tensor tensor = AllocateTensor(DataType::kFloat32, shape);
    for (uint64_t i = 0; i < ElementCount(shape); ++i) {
      Floats(tensor)[i] = start + static_cast<float>(i % 11) / 10;
    }
    return tensor;
  }

  static Tensor Int(int32_t value) {
    Tensor tensor = AllocateTensor(DataType::kInt32, {1});
    *reinterpret_cast<int32_t*>(tensor.data) = value;
    return tensor;
  }

  // All results, one after the other.
  static std::vector<float> Run(const std::shared_ptr<const Program>& program) {
    Tensors tensors;
    tensors.inputs = {Numbers({1, 1, 64}, 0.5F), Numbers({1, 2, 4, 8}, -0.5F),
                      Numbers({1, 2, 4, 8}, 0.25F), Int(4), Int(5)};
    RequestPool(program, 1).Run(tensors);
    std::vector<float> all;
    for (const Tensor& tensor : tensors.outputs) {
      if (tensor.data == nullptr) continue;  // of a damaged program
      all.insert(all.end(), Floats(tensor), Floats(tensor) + ElementCount(tensor.shape));
    }
    return all;
  }

  Json ProgramJson() const {
    const ByteSpan text = Open(bytes_)->Get("program/" + name_).bytes;
    const char* begin = reinterpret_cast<const char*>(text.data());
    return Json::parse(begin, begin + text.size());
  }

  std::shared_ptr<const Program> LoadJson(const Json& json) {
    std::string name;
    const auto bundle = BundleWith(json.dump(), &name);
    return Load(bundle, name);
  }
};

// The call that has caches.
Json& CallWithCaches(Json& program) {
  for (Json& call : program.at("calls")) {
    if (call.contains("caches")) return call;
  }
  throw std::runtime_error("no call has caches");
}

TEST_F(BundledCachesTest, ComputeWhatTheyDidBefore) {
  const std::vector<float> expected = Run(program_);
  ASSERT_EQ(expected.size(), 32u + 2 * 2 * 5 * 8);
  EXPECT_EQ(expected[32], -0.5F) << "the past is the beginning of the present";
  EXPECT_NE(expected[0], 0);
  const std::string name = name_;
  program_ = nullptr;
  EXPECT_EQ(Run(Load(Open(bytes_), name)), expected);
}

TEST_F(BundledCachesTest, DamagedEntriesAreErrors) {
  const Json good = ProgramJson();
  const size_t values = good.at("values").size();
  const std::vector<Json> wrong{Json::array(),
                                Json::array({Json::array({0, 1})}),
                                Json::array({Json::array({0}), Json::array({1})}),
                                Json::array({Json::array({values, 0}), Json::array({0, 1})}),
                                Json::array({Json::array({-1, 0}), Json::array({0, 1})}),
                                Json::array({Json::array({"0", 0}), Json::array({0, 1})}),
                                Json::array({0, 1}),
                                7};
  for (const Json& caches : wrong) {
    Json json = good;
    CallWithCaches(json)["caches"] = caches;
    EXPECT_THROW(Run(LoadJson(json)), Error) << caches.dump();
  }
  Json json = good;
  CallWithCaches(json).erase("caches");
  EXPECT_TANDEM_ERROR(LoadJson(json), ErrorCode::kInvalidModel, "the number of a call's inputs");
}

TEST_F(BundledCachesTest, AnyChangedCachesAreErrorsOrRun) {
  const Json good = ProgramJson();
  for (size_t place = 0; place < 4; ++place) {
    for (size_t value = 0; value <= good.at("values").size(); ++value) {
      Json json = good;
      Json& entry = CallWithCaches(json)["caches"][place / 2][place % 2];
      entry = value == good.at("values").size() ? Json() : Json(value);
      try {
        Run(LoadJson(json));
      } catch (const Error& error) {
        EXPECT_NE(error.what(), std::string());
      }
    }
  }
}

}  // namespace
}  // namespace tandem

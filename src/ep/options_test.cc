#include "ep/options.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using Given = std::map<std::string, std::string>;

TEST(Options, DefaultsAreThoseOfTheTable) {
  const Options options = ParseOptions({});
  for (const OptionRow& row : OptionTable()) {
    EXPECT_NO_THROW(ParseOptions({{std::string(row.name), std::string(row.default_value)}}))
        << row.name;
  }
  EXPECT_TRUE(options.share_weights);
  EXPECT_EQ(options.num_streams, 1);
  EXPECT_TRUE(options.profile_file.empty());
}

TEST(Options, ValuesAreReadInAnyCase) {
  const Options options = ParseOptions(
      {{"precision", "bf16"}, {"num_of_threads", "3"}, {"share_weights", "OFF"}, {"fold", "On"}});
  EXPECT_EQ(options.precision, "BF16");
  EXPECT_EQ(options.num_of_threads, 3);
  EXPECT_FALSE(options.share_weights);
  EXPECT_EQ(options.fold, Options::Fold::kOn);
  EXPECT_EQ(options.activation_precision, Activations::kAuto);
  EXPECT_EQ(ParseOptions({{"activation_precision", "INT8"}}).activation_precision,
            Activations::kInt8);
  EXPECT_EQ(ParseOptions({{"activation_precision", "f32"}}).activation_precision,
            Activations::kF32);
}

TEST(Options, AnUnknownNameIsAnErrorWithTheNearestOne) {
  EXPECT_TANDEM_ERROR(ParseOptions({{"num_threads", "2"}}), ErrorCode::kInvalidArgument,
                      "'num_threads'", "did you mean 'num_of_threads'?");
  EXPECT_TANDEM_ERROR(ParseOptions({{"xyzzy", "2"}}), ErrorCode::kInvalidArgument, "'xyzzy'",
                      "its options are device, precision");
}

TEST(Options, OptionsOfOpenVinosProviderSayWhatToUse) {
  EXPECT_TANDEM_ERROR(ParseOptions({{"device_type", "CPU"}}), ErrorCode::kInvalidArgument,
                      "OrtEpDevice");
  EXPECT_TANDEM_ERROR(ParseOptions({{"model_priority", "HIGH"}}), ErrorCode::kInvalidArgument,
                      "load_config");
}

TEST(Options, BadValuesAreNamed) {
  EXPECT_TANDEM_ERROR(ParseOptions({{"num_of_threads", "-1"}}), ErrorCode::kInvalidArgument,
                      "'num_of_threads'", "found '-1'", "from 0 on");
  EXPECT_TANDEM_ERROR(ParseOptions({{"num_streams", "two"}}), ErrorCode::kInvalidArgument, "'two'");
  EXPECT_TANDEM_ERROR(ParseOptions({{"precision", "FP31"}}), ErrorCode::kInvalidArgument,
                      "did you mean 'FP32'?");
}

TEST(Options, TheDocumentIsCurrent) {
  const std::filesystem::path file = std::filesystem::path(TANDEM_SOURCE_DIR) / "docs/options.md";
  if (std::getenv("TANDEM_UPDATE_DOCS") != nullptr) WriteFileAtomically(file, OptionsDocument());
  EXPECT_EQ(ReadTextFile(file), OptionsDocument()) << "run with TANDEM_UPDATE_DOCS=1";
}

TEST(Properties, TheDefaultIsExact) {
  const Properties properties = PropertiesFor(ParseOptions({}), "CPU");
  EXPECT_EQ(properties.at("INFERENCE_PRECISION_HINT"), "f32");
  EXPECT_EQ(properties.at("DYNAMIC_QUANTIZATION_GROUP_SIZE"), "0");
}

TEST(Properties, LoadConfigIsTextOrAFileAndTakesPrecedence) {
  const std::string json = R"({"CPU": {"NUM_STREAMS": 4, "ENABLE_CPU_PINNING": false},
                               "GPU": {"NUM_STREAMS": 9}})";
  TempDir dir;
  for (const std::string& value : {json, dir.Write("config.json", json).string()}) {
    const Properties properties = PropertiesFor(ParseOptions({{"load_config", value}}), "CPU");
    EXPECT_EQ(properties.at("NUM_STREAMS"), "4");
    EXPECT_EQ(properties.at("ENABLE_CPU_PINNING"), "NO");
  }
  EXPECT_EQ(PropertiesFor(ParseOptions({{"load_config", json}}), "GPU.1").at("NUM_STREAMS"), "9");
}

TEST(Properties, ABadLoadConfigIsAnError) {
  const auto load = [](const std::string& value) {
    return PropertiesFor(ParseOptions({{"load_config", value}}), "CPU");
  };
  EXPECT_TANDEM_ERROR(load("{\"CPU\": "), ErrorCode::kInvalidArgument, "load_config");
  EXPECT_TANDEM_ERROR(load("{\"XPU\": {}}"), ErrorCode::kInvalidArgument, "'XPU'", "CPU, GPU");
  EXPECT_TANDEM_ERROR(load("{\"CPU\": 3}"), ErrorCode::kInvalidArgument, "object of properties");
  EXPECT_TANDEM_ERROR(load("none.json"), ErrorCode::kInvalidArgument, "load_config", "none.json");
}

}  // namespace
}  // namespace tandem

#include "ep/ep_context.h"

#include <gtest/gtest.h>

#include <climits>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

TEST(ContextSettings, AreThoseOfOnnxRuntime) {
  const ContextSettings none = ParseContextSettings({});
  EXPECT_FALSE(none.enabled || none.embeds || none.shares || none.stops_sharing);
  const ContextSettings all = ParseContextSettings({{"ep.context_enable", "1"},
                                                    {"ep.context_file_path", "a/b.onnx"},
                                                    {"ep.context_node_name_prefix", "p"},
                                                    {"ep.share_ep_contexts", "1"},
                                                    {"ep.stop_share_ep_contexts", "1"}});
  EXPECT_TRUE(all.enabled && all.shares && all.stops_sharing);
  EXPECT_EQ(all.file, "a/b.onnx");
  EXPECT_EQ(all.node_prefix, "p");
}

TEST(ContextSettings, ContradictionsAreErrors) {
  EXPECT_TANDEM_ERROR(ParseContextSettings({{"ep.context_enable", "true"}}),
                      ErrorCode::kInvalidArgument, "ep.context_enable: found 'true'");
  EXPECT_TANDEM_ERROR(ParseContextSettings({{"ep.context_enable", "1"},
                                            {"ep.context_embed_mode", "1"},
                                            {"ep.stop_share_ep_contexts", "1"}}),
                      ErrorCode::kInvalidArgument, "excludes ep.share_ep_contexts");
}

TEST(EmbeddedContext, HoldsLessThanTwoGibibytes) {
  CheckEmbeddable(INT_MAX);
  EXPECT_TANDEM_ERROR(CheckEmbeddable(uint64_t{INT_MAX} + 1), ErrorCode::kUnsupported,
                      "2147483648 bytes", "use ep.context_embed_mode 0");
}

TEST(Compatibility, IsThatOfTheFormat) {
  EXPECT_EQ(CheckCompatibility(CompatibilityInfo("CPU")),
            OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL);
  for (const char* other : {"", "tandem.format=2.0;device=CPU", "something else"}) {
    EXPECT_EQ(CheckCompatibility(other), OrtCompiledModelCompatibility_EP_UNSUPPORTED) << other;
  }
}

}  // namespace
}  // namespace tandem

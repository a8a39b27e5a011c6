#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tandem {
namespace {

TEST(Isa, PortableIsAlwaysThere) {
  EXPECT_EQ(SupportedIsas().front(), Isa::kPortable);
}

// ActiveIsa reads the environment once, so each case needs a process of its own.
void ExitWithActiveIsa(const char* forced) {
  ::setenv("TANDEM_ISA", forced, 1);
  try {
    std::fprintf(stderr, "active %s", std::string(Name(ActiveIsa())).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s", error.what());
  }
  std::exit(0);
}

TEST(IsaDeathTest, TheEnvironmentForcesOne) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(ExitWithActiveIsa("portable"), ::testing::ExitedWithCode(0), "active portable");
}

TEST(IsaDeathTest, AnUnknownNameIsAnError) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(ExitWithActiveIsa("avx1024"), ::testing::ExitedWithCode(0),
              "TANDEM_ISA=avx1024: expected portable, avx2, avx512 or avx512_vnni");
}

}  // namespace
}  // namespace tandem

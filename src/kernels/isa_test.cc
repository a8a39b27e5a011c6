#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/strings.h"

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
              "TANDEM_ISA=avx1024: expected portable, avx2, avx_vnni, avx512, avx512_vnni or amx");
}

TEST(IsaDeathTest, OneThatIsNotThereIsAnError) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::vector<Isa> supported = SupportedIsas();
  for (Isa isa : {Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx}) {
    if (std::find(supported.begin(), supported.end(), isa) != supported.end()) continue;
    const std::string name(Name(isa));
    EXPECT_EXIT(ExitWithActiveIsa(name.c_str()), ::testing::ExitedWithCode(0),
                Concat("TANDEM_ISA=", name, ": this machine lacks it; its best is ",
                       Name(supported.back())));
  }
}

}  // namespace
}  // namespace tandem

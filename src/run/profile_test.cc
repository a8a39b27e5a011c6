#include "run/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "run/runtime.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using Kind = ProfileEvent::Kind;

std::vector<ProfileEvent> Events(const Profile& profile) {
  std::vector<ProfileEvent> events;
  profile.ForEach([&](ProfileEvent event) { events.push_back(std::move(event)); });
  return events;
}

// Two calls of one function.
std::shared_ptr<const Program> TwoCalls() {
  auto program = std::make_shared<Program>();
  program->calls.resize(2);
  program->calls[1].origins["mul"] = {"layers.1/mul", "layers.1/mul, layers.1/add"};
  return program;
}

// A run of 1 ms, in which each call runs one operator.
RunTimes Times(int64_t start_ns) {
  const auto op = std::make_shared<const OpLabel>(OpLabel{"mul", "Multiply", kOnOpenVino, "jit"});
  RunTimes times;
  times.time = {start_ns, 1'000'000};
  for (size_t call : {0, 1}) {
    const int64_t call_ns = start_ns + static_cast<int64_t>(call) * 500'000;
    times.calls.push_back({call, {call_ns, 400'000}, {{op, {call_ns + 1000, 2500}, {2, 3}, 64}}});
  }
  return times;
}

std::map<std::string, std::string> Args(const ProfileEvent& event) {
  return {event.args.begin(), event.args.end()};
}

TEST(Profile, ARunIsAnEventWithItsCallsAndOperators) {
  Profile profile;
  profile.Add("model", TwoCalls(), Times(NowNs()));
  const auto events = Events(profile);
  ASSERT_EQ(events.size(), 5u);
  const std::vector<Kind> kinds{Kind::kRun, Kind::kCall, Kind::kOp, Kind::kCall, Kind::kOp};
  for (size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(events[i].kind, kinds[i]) << i;
  EXPECT_EQ(Args(events[0]).at("program"), "model");
  EXPECT_EQ(Args(events[1]).at("call"), "0");
  EXPECT_EQ(Args(events[3]).at("call"), "1");
  EXPECT_EQ(Args(events[3]).at("function"), "0");
}

TEST(Profile, AnOperatorHasTheNameThatItHasInItsCall) {
  Profile profile;
  profile.Add("model", TwoCalls(), Times(NowNs()));
  const auto events = Events(profile);
  EXPECT_EQ(events[2].name, "mul") << "nobody said which node it is";
  EXPECT_FALSE(Args(events[2]).contains("nodes"));
  EXPECT_EQ(events[4].name, "layers.1/mul");
  const auto args = Args(events[4]);
  EXPECT_EQ(args.at("nodes"), "layers.1/mul, layers.1/add");
  EXPECT_EQ(args.at("op_name"), "Multiply");
  EXPECT_EQ(args.at("executor"), "OpenVINO");
  EXPECT_EQ(args.at("kernel"), "jit");
  EXPECT_EQ(args.at("output_shape"), "2x3");
  EXPECT_EQ(args.at("parameter_size"), "64");
}

TEST(Profile, RunsOfManyThreadsAreAllThereWithTheirThread) {
  Profile profile;
  const auto program = TwoCalls();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int run = 0; run < 100; ++run) profile.Add("model", program, Times(NowNs()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<int64_t, size_t> events;
  for (const ProfileEvent& event : Events(profile)) ++events[event.thread];
  EXPECT_EQ(events.size(), 4u);
  for (const auto& [thread, count] : events) EXPECT_EQ(count, 500u);
}

TEST(Profile, WhatDoesNotFitIsLeftOut) {
  Profile profile;
  const auto program = TwoCalls();
  RunTimes large = Times(0);
  large.calls[0].ops.resize(Profile::kMaxEvents / 2, large.calls[0].ops[0]);
  profile.Add("large", program, large);
  profile.Add("large", program, std::move(large));
  profile.Add("small", program, Times(0));
  EXPECT_EQ(Events(profile).size(), Profile::kMaxEvents / 2 + 4 + 5);
  profile.Clear();
  EXPECT_TRUE(Events(profile).empty());
}

TEST(ProfileFile, IsJsonInTheFormatOfTraceEvents) {
  TempDir dir;
  const auto path = dir.path() / "profile.json";
  ProfileFile file(path);
  EXPECT_EQ(nlohmann::json::parse(ReadTextFile(path)), nlohmann::json::array());
  file.profile().Add("no \xff UTF-8", TwoCalls(), Times(NowNs()));
  EXPECT_TRUE(file.TryWrite());
  const auto events = nlohmann::json::parse(ReadTextFile(path));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0]["cat"], "Session");
  EXPECT_EQ(events[0]["ph"], "X");
  EXPECT_EQ(events[0]["dur"], 1000.0);
  EXPECT_GE(events[0]["ts"], 0.0);
  EXPECT_EQ(events[2]["dur"], 2.5);
  EXPECT_EQ(events[2]["name"], "mul");
  EXPECT_GT(events[0]["pid"], 0);
}

TEST(ProfileFile, OneThatCannotBeWrittenIsNamed) {
  EXPECT_TANDEM_ERROR(ProfileFile("/none/profile.json"), ErrorCode::kNotFound,
                      "'/none/profile.json'");
}

TEST(ProfileFile, SessionsThatNameOneShareIt) {
  TempDir dir;
  const auto runtime = Runtime::Get();
  const auto first = runtime->OpenProfile(dir.path() / "profile.json");
  const auto second = runtime->OpenProfile(dir.path() / "." / "profile.json");
  const auto other = runtime->OpenProfile(dir.path() / "other.json");
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
}

TEST(ProfileFile, SaysWhenItCannotBeWritten) {
  TempDir dir;
  const auto folder = dir.path() / "gone";
  std::filesystem::create_directory(folder);
  const ProfileFile file(folder / "profile.json");
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(file.TryWrite());
}

}  // namespace
}  // namespace tandem

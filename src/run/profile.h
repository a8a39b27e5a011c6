#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "run/program.h"

namespace tandem {

// What a run of a program measured. A run fills its own, so nothing is locked while it computes.
struct RunTimes {
  struct Call {
    size_t number = 0;  // in Program::calls
    Interval time;
    OpTimes ops;
  };

  Interval time;
  std::vector<Call> calls;
};

// An event of the trace event format, in which ONNX Runtime's profile is too.
struct ProfileEvent {
  enum class Kind { kRun, kCall, kOp };

  Kind kind = Kind::kRun;
  std::string name;
  int64_t thread = 0;  // the system's number of the one that asked for the run
  Interval time;
  std::vector<std::pair<const char*, std::string>> args;
};

// What runs measured, one after the other; docs/profile.md describes its events. Safe from any
// thread.
class Profile {
 public:
  // As many as ONNX Runtime keeps. A run that does not fit is left out.
  static constexpr size_t kMaxEvents = 1'000'000;

  // Adds a run of the calling thread; `label` says of what.
  void Add(const std::string& label, std::shared_ptr<const Program> program, RunTimes times);

  // Hands over all events, run by run, each with the calls and operators in it behind it.
  void ForEach(const std::function<void(ProfileEvent)>& visit) const;

  void Clear();

 private:
  struct Run;

  mutable std::mutex mutex_;
  // Both guarded by mutex_.
  std::vector<std::shared_ptr<const Run>> runs_;
  size_t events_ = 0;
};

// The profile of all sessions of the process that name one file.
class ProfileFile {
 public:
  // Replaces the file by one without events. Throws Error when it cannot be written.
  explicit ProfileFile(std::filesystem::path path);

  Profile& profile() { return profile_; }

  // Replaces the file by one with all events so far. False when that fails, and the file is as it
  // was: what was measured is no reason for a session to fail when it ends.
  bool TryWrite() const noexcept;

 private:
  void Write() const;

  const std::filesystem::path path_;
  const int64_t start_ns_ = NowNs();
  Profile profile_;
  mutable std::mutex writing_;
};

}  // namespace tandem

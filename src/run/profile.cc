#include "run/profile.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <span>

#include "base/file.h"
#include "base/strings.h"

namespace tandem {
namespace {

using Kind = ProfileEvent::Kind;
using Json = nlohmann::ordered_json;

constexpr const char* kProvider = "TandemExecutionProvider";
constexpr size_t kChunkBytes = 1 << 20;

size_t EventCount(const RunTimes& times) {
  size_t count = 1 + times.calls.size();
  for (const RunTimes::Call& call : times.calls) count += call.ops.size();
  return count;
}

std::vector<std::pair<const char*, std::string>> OpArgs(const OpTime& measured,
                                                        const std::string& nodes) {
  const OpLabel& op = *measured.op;
  std::vector<std::pair<const char*, std::string>> args{{"op_name", op.type},
                                                        {"executor", op.executor}};
  const auto add = [&args](const char* name, const std::string& value) {
    if (!value.empty()) args.emplace_back(name, value);
  };
  add("nodes", nodes);
  add("kernel", op.kernel);
  add("output_shape", Join(measured.shape, "x"));
  if (measured.weight_bytes > 0) add("parameter_size", std::to_string(measured.weight_bytes));
  return args;
}

const char* Category(Kind kind) {
  return kind == Kind::kRun ? "Session" : kind == Kind::kCall ? "Api" : "Kernel";
}

double Microseconds(int64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

std::string TraceText(const ProfileEvent& event, int64_t start_ns) {
  Json json{{"cat", Category(event.kind)},
            {"pid", getpid()},
            {"tid", event.thread},
            {"dur", Microseconds(event.time.duration_ns)},
            {"ts", Microseconds(event.time.start_ns - start_ns)},
            {"ph", "X"},
            {"name", event.name},
            {"args", Json::object()}};
  for (const auto& [name, value] : event.args) json["args"][name] = value;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);  // names can be any bytes
}

}  // namespace

struct Profile::Run {
  std::string label;
  int64_t thread;
  std::shared_ptr<const Program> program;
  RunTimes times;
};

void Profile::Add(const std::string& label, std::shared_ptr<const Program> program,
                  RunTimes times) {
  const size_t count = EventCount(times);
  auto run = std::make_shared<const Run>(
      Run{label, int64_t{gettid()}, std::move(program), std::move(times)});
  const std::lock_guard lock(mutex_);
  if (events_ + count > kMaxEvents) return;
  events_ += count;
  runs_.push_back(std::move(run));
}

void Profile::ForEach(const std::function<void(ProfileEvent)>& visit) const {
  std::vector<std::shared_ptr<const Run>> runs;
  {
    const std::lock_guard lock(mutex_);
    runs = runs_;
  }
  using Arg = std::pair<const char*, std::string>;
  for (const auto& run : runs) {
    const auto add = [&](Kind kind, std::string name, const Interval& time, std::vector<Arg> args) {
      args.insert(args.begin(), {"provider", kProvider});
      visit({kind, std::move(name), run->thread, time, std::move(args)});
    };
    add(Kind::kRun, "tandem_run", run->times.time, {{"program", run->label}});
    for (const RunTimes::Call& measured : run->times.calls) {
      const Program::Call& call = run->program->calls[measured.number];
      const Arg function{"function", std::to_string(call.function)};
      const Arg number{"call", std::to_string(measured.number)};
      add(Kind::kCall, Concat("function ", call.function), measured.time, {function, number});
      for (const OpTime& op : measured.ops) {
        const auto origin = call.origins.find(op.op->name);
        const bool is_known = origin != call.origins.end();
        std::vector<Arg> args = OpArgs(op, is_known ? origin->second.nodes : "");
        args.insert(args.end(), {function, number});
        add(Kind::kOp, is_known ? origin->second.name : op.op->name, op.time, std::move(args));
      }
    }
  }
}

void Profile::Clear() {
  const std::lock_guard lock(mutex_);
  runs_.clear();
  events_ = 0;
}

ProfileFile::ProfileFile(std::filesystem::path path) : path_(std::move(path)) {
  Write();
}

bool ProfileFile::TryWrite() const noexcept {
  try {
    Write();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void ProfileFile::Write() const {
  const std::lock_guard lock(writing_);
  AtomicFile file(path_);
  std::string text = "[";
  const char* separator = "\n";
  profile_.ForEach([&](const ProfileEvent& event) {
    text += separator + TraceText(event, start_ns_);
    separator = ",\n";
    if (text.size() < kChunkBytes) return;
    file.Write(std::as_bytes(std::span(text)));
    text.clear();
  });
  text += "\n]\n";
  file.Write(std::as_bytes(std::span(text)));
  file.Commit();
}

}  // namespace tandem

#include "run/session_log.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

const char* FormName(const WeightForm& form) {
  return form.packed ? "packed" : form.private_bytes > 0 ? "copied" : "mapped";
}

// Every form that some session holds, and which sessions do.
using Holders = std::map<const WeightSlot*, std::set<SessionLog::Id>>;

// Counts and bytes of forms, by form.
struct Totals {
  std::map<std::string, std::pair<uint64_t, uint64_t>> by_form;

  void Add(const WeightForm& form) {
    auto& [count, bytes] = by_form[FormName(form)];
    ++count;
    bytes += form.bytes();
  }

  Json ToJson() const {
    Json json = Json::object();
    for (const auto& [form, sum] : by_form) {
      json[form] = {{"count", sum.first}, {"bytes", sum.second}};
    }
    return json;
  }
};

Json ProgramJson(const Program& program) {
  Json constants = Json::array();
  for (const Program::Constant& constant : program.constants) {
    constants.push_back(
        {{"name", constant.name}, {"bytes", constant.bytes}, {"reason", constant.reason}});
  }
  return {{"functions", program.functions.size()},
          {"calls", program.calls.size()},
          {"inputs", program.inputs.size()},
          {"outputs", program.outputs.size()},
          {"constants", std::move(constants)}};
}

Json SessionJson(SessionLog::Id id, const SessionRecord& session, const Holders& holders) {
  Json json{{"id", id},
            {"model", session.model},
            {"device", session.device},
            {"options", session.options},
            {"nodes", {{"claimed", session.claimed_nodes}, {"declined", Json::array()}}},
            {"programs", Json::array()},
            {"weights", Json::array()}};
  for (const auto& node : session.declined) {
    json["nodes"]["declined"].push_back(
        {{"name", node.name}, {"op_type", node.op_type}, {"reason", node.reason}});
  }
  Totals totals;
  uint64_t own_bytes = 0;
  std::set<const WeightSlot*> seen;
  for (const auto& program : session.programs) {
    json["programs"].push_back(ProgramJson(*program));
    for (const auto& [name, handle] : program->weights) {
      const WeightForm& form = handle->form();
      const size_t sessions = holders.at(handle.get()).size();
      json["weights"].push_back({{"name", name},
                                 {"form", FormName(form)},
                                 {"bytes", form.bytes()},
                                 {"slot", handle->number()},
                                 {"sessions", sessions}});
      if (!seen.insert(handle.get()).second) continue;
      totals.Add(form);
      if (sessions == 1) own_bytes += form.private_bytes;
    }
  }
  json["forms"] = totals.ToJson();
  json["unshared_bytes"] = own_bytes;
  return json;
}

// Whether it could: a report that stays as it was is no reason for another session to fail.
bool TryWrite(const std::filesystem::path& file, const std::string& report) noexcept {
  try {
    WriteFileAtomically(file, report);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

SessionLog::Id SessionLog::NewId() {
  const std::lock_guard lock(mutex_);
  return next_++;
}

void SessionLog::Set(Id session, SessionRecord record) {
  const std::lock_guard lock(mutex_);
  const std::filesystem::path own = record.report_file;
  sessions_[session] = std::move(record);
  if (!own.empty()) WriteFileAtomically(own, ReportLocked());
  WriteOtherReportsLocked(own);
}

void SessionLog::Remove(Id session) noexcept {
  const std::lock_guard lock(mutex_);
  sessions_.erase(session);
  WriteOtherReportsLocked({});
}

std::string SessionLog::Report() const {
  const std::lock_guard lock(mutex_);
  return ReportLocked();
}

std::string SessionLog::ReportLocked() const {
  Holders holders;
  for (const auto& [id, session] : sessions_) {
    for (const auto& program : session.programs) {
      for (const auto& [name, handle] : program->weights) holders[handle.get()].insert(id);
    }
  }
  Totals totals;
  uint64_t private_bytes = 0;
  for (const auto& [slot, sessions] : holders) {
    totals.Add(slot->form());
    private_bytes += slot->form().private_bytes;
  }
  Json report{{"process",
               {{"sessions", sessions_.size()},
                {"forms", totals.ToJson()},
                {"weight_bytes_in_private_memory", private_bytes}}},
              {"sessions", Json::array()}};
  for (const auto& [id, session] : sessions_) {
    report["sessions"].push_back(SessionJson(id, session, holders));
  }
  return report.dump(1) + "\n";
}

void SessionLog::WriteOtherReportsLocked(const std::filesystem::path& own) const {
  std::set<std::filesystem::path> files;
  for (const auto& [id, session] : sessions_) {
    if (!session.report_file.empty()) files.insert(session.report_file);
  }
  files.erase(own);
  if (files.empty()) return;
  const std::string report = ReportLocked();
  for (const auto& file : files) TryWrite(file, report);
}

}  // namespace tandem

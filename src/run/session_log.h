#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "run/program.h"

namespace tandem {

// What a session tells about itself.
struct SessionRecord {
  struct DeclinedNode {
    std::string name;
    std::string op_type;
    std::string reason;
  };

  std::string model;  // path, or empty for a model from memory
  std::string device;
  std::map<std::string, std::string> options;
  size_t claimed_nodes = 0;
  std::vector<DeclinedNode> declined;
  std::vector<std::shared_ptr<const Program>> programs;
  std::filesystem::path report_file;  // empty: none
};

// The sessions of the process and the report of them: which weights there are, in which forms, and
// who shares them. Safe from any thread.
//
// Each file that a session names holds the report of all sessions, as of the last time that one of
// them was set or removed. A file that no session names any more stays.
class SessionLog {
 public:
  using Id = size_t;

  // A number that no session of the process had before.
  Id NewId();

  // Sets what is known of a session. Throws Error when its own report cannot be written.
  void Set(Id session, SessionRecord record);

  void Remove(Id session) noexcept;

  // The report as JSON; its members are described in docs/report.md.
  std::string Report() const;

 private:
  std::string ReportLocked() const;
  void WriteOtherReportsLocked(const std::filesystem::path& own) const;

  mutable std::mutex mutex_;
  // Both guarded by mutex_.
  std::map<Id, SessionRecord> sessions_;
  Id next_ = 1;
};

}  // namespace tandem

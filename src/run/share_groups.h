#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

namespace tandem {

// Which bundle the sessions write to that share one (ep.share_ep_contexts). A group is known by the
// folder it writes to: the first session of the group names the bundle, and the group goes on,
// whatever becomes of its sessions, until one of them is the last by its own words. Safe from any
// thread.
class ShareGroups {
 public:
  // The name of the bundle for the group of `folder`; `name` if there is no group yet. `is_last`
  // ends the group.
  std::string Join(const std::filesystem::path& folder, const std::string& name, bool is_last) {
    const std::lock_guard lock(mutex_);
    const auto [group, is_new] =
        names_.try_emplace(std::filesystem::weakly_canonical(folder), name);
    const std::string joined = group->second;
    if (is_last) names_.erase(group);
    return joined;
  }

 private:
  std::mutex mutex_;
  std::map<std::filesystem::path, std::string> names_;  // guarded by mutex_
};

}  // namespace tandem

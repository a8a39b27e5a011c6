#include "run/runtime.h"

namespace tandem {

std::shared_ptr<Runtime> Runtime::Get() {
  // Never destroyed, so that sessions may outlive whatever order a process ends in.
  static auto* const mutex = new std::mutex();
  static auto* const current = new std::weak_ptr<Runtime>();
  const std::lock_guard lock(*mutex);
  if (auto runtime = current->lock()) return runtime;
  const std::shared_ptr<Runtime> runtime(new Runtime());
  *current = runtime;
  return runtime;
}

std::shared_ptr<const Bundle> Runtime::OpenBundle(const std::filesystem::path& path) {
  const auto file = store_.Open(path);
  const FileIdentity& identity = file->identity();
  DigestBuilder key;
  key.Add(static_cast<int64_t>(identity.device)).Add(static_cast<int64_t>(identity.inode));
  key.Add(static_cast<int64_t>(identity.size)).Add(identity.mtime_ns).Add(identity.ctime_ns);
  return bundles_.Get(key.Finish(), [&] { return Bundle::Open(file); });
}

std::shared_ptr<ProfileFile> Runtime::OpenProfile(const std::filesystem::path& path) {
  const auto absolute = std::filesystem::absolute(path).lexically_normal();
  return profiles_.Get(absolute.string(), [&] { return std::make_shared<ProfileFile>(absolute); });
}

}  // namespace tandem

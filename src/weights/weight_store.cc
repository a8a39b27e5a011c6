#include "weights/weight_store.h"

namespace tandem {

std::shared_ptr<const MappedFile> WeightStore::Open(const std::filesystem::path& path) {
  // Mapped first and looked up by the identity of what was mapped: asking for the identity of the
  // path beforehand could name a file that is replaced in between.
  auto mapped = MappedFile::Open(path);
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const MappedFile>& known = files_[mapped->identity()];
  if (auto shared = known.lock()) return shared;
  known = mapped;
  return mapped;
}

WeightKey WeightStore::KeyOf(const Weight& weight) {
  WeightKey key{{}, weight.type, weight.shape};
  if (!weight.file) {
    key.digest = DigestOf(weight.bytes);
    return key;
  }
  const Range range{weight.file->identity(), weight.offset, weight.bytes.size()};
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = digests_.find(range); known != digests_.end()) {
      key.digest = known->second;
      return key;
    }
  }
  key.digest = DigestOf(weight.bytes);  // without the lock: it reads the whole weight
  const std::lock_guard lock(mutex_);
  digests_[range] = key.digest;
  return key;
}

std::vector<std::shared_ptr<const MappedFile>> WeightStore::MappedFiles() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const MappedFile>> files;
  for (const auto& [identity, known] : files_) {
    if (auto file = known.lock()) files.push_back(std::move(file));
  }
  return files;
}

void WeightStore::ReleasePages() const {
  for (const auto& file : MappedFiles()) file->ReleasePages();
}

}  // namespace tandem

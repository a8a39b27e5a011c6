#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "base/file.h"
#include "weights/weight.h"

namespace tandem {

// Where the bytes of weights are: one mapping and one reading of each file identity, for all
// sessions of the process. Safe from any thread; two threads that ask for the digest of one weight
// at the same time may both compute it.
class WeightStore {
 public:
  // The mapping of the file that `path` leads to now. It is shared with everyone who asked while it
  // was alive and the file was the same. Throws as MappedFile::Open.
  std::shared_ptr<const MappedFile> Open(const std::filesystem::path& path);

  // The content of `weight`. Bytes in a file are read once per file identity and range, later keys
  // of them cost nothing; bytes in memory are read each time.
  WeightKey KeyOf(const Weight& weight);

  // The files mapped at the moment.
  std::vector<std::shared_ptr<const MappedFile>> MappedFiles() const;

  // Takes what was read of them out of resident memory: most weights are read once, to pack them.
  void ReleasePages() const;

 private:
  using Range = std::tuple<FileIdentity, uint64_t /*offset*/, uint64_t /*length*/>;

  mutable std::mutex mutex_;
  // Both guarded by mutex_.
  std::map<FileIdentity, std::weak_ptr<const MappedFile>> files_;
  std::map<Range, Digest> digests_;
};

}  // namespace tandem

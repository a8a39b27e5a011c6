#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "bundle/bundle.h"

namespace tandem {

// Collects tensors and writes them as a bundle. Bytes are borrowed until it is written.
class BundleWriter {
 public:
  // What is in `bundle` already. Throws as Bundle::GetVerified: damage is not passed on.
  void AddAll(const std::shared_ptr<const Bundle>& bundle, Verify verify = Verify::kAuto);

  // Does nothing when the bundle has a tensor of this name: names stand for content.
  void Add(const std::string& name, DataType type, const Shape& shape, ByteSpan bytes,
           std::shared_ptr<const void> owner);

  // An entry of the file's metadata that says who made it.
  void SetMetadata(const std::string& key, const std::string& value) { metadata_[key] = value; }

  // Bytes of the file.
  uint64_t size() const;

  // The file in memory.
  std::string ToBytes() const;

  // Replaces `path`, or leaves it as it was and throws Error(kIo). The caller keeps other writers
  // away (FolderLock): what a writer that was killed left behind is removed.
  void Write(const std::filesystem::path& path) const;

 private:
  struct Entry {
    BundleTensor tensor;
    std::shared_ptr<const void> owner;
  };

  // The header and the data, in the order of the file.
  std::string Header(int64_t mtime_ns) const;
  template <typename Sink>
  void Emit(int64_t mtime_ns, Sink&& sink) const;

  std::map<std::string, std::string> metadata_;
  std::map<std::string, Entry> entries_;
};

}  // namespace tandem

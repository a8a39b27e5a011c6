#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/file.h"
#include "weights/digest.h"

namespace tandem {

// A bundle: one file that holds the weights and programs of several compiled models. It is a
// safetensors file (https://huggingface.co/docs/safetensors); docs/bundle-format.md says what is in
// it. Everything in a bundle is untrusted until it is checked.

// Files of another major version are refused; what a newer minor version adds is ignored.
constexpr int kBundleMajor = 1;
constexpr int kBundleMinor = 0;

struct BundleTensor {
  DataType type = DataType::kUndefined;
  Shape shape;
  ByteSpan bytes;
  Digest digest;  // what the bundle says
};

// Whether the bytes of weights are compared with their digests before they are used. Programs
// always are.
enum class Verify {
  kAuto,  // unless the file has the modification time that it was given when it was written
  kFull,
  kOff,
};

// A bundle that is open for reading. Immutable, hence safe from any thread.
class Bundle {
 public:
  // Checks the header: its digest, the version, and that all tensors lie inside the file. Throws
  // Error(kInvalidModel), naming the file, what was found and what was expected.
  static std::shared_ptr<const Bundle> Open(const std::shared_ptr<const MappedFile>& file);
  // The same for a bundle in memory that `owner` keeps; `name` is for messages.
  static std::shared_ptr<const Bundle> FromMemory(std::string name, ByteSpan bytes,
                                                  std::shared_ptr<const void> owner);

  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  const std::string& name() const { return name_; }
  // Keeps the bytes of tensors alive; a MappedFile, if the bundle is a file.
  const std::shared_ptr<const void>& owner() const { return owner_; }
  bool is_file() const { return is_file_; }
  // Of the entry `key` of the file's metadata; empty when there is none.
  std::string Metadata(std::string_view key) const;

  const std::map<std::string, BundleTensor>& tensors() const { return tensors_; }
  // Throws Error(kInvalidModel) when there is no such tensor.
  const BundleTensor& Get(const std::string& tensor) const;

  // Get, after comparing the bytes with their digest as `verify` says; once for each tensor. Throws
  // Error(kInvalidModel), naming file and tensor, when they differ.
  const BundleTensor& GetVerified(const std::string& tensor, Verify verify) const;

 private:
  Bundle(std::string name, ByteSpan bytes, std::shared_ptr<const void> owner);

  [[noreturn]] void Fail(const std::string& what) const;
  void ReadHeader(ByteSpan bytes);
  void CheckHeaderDigest(std::string header) const;

  std::string name_;
  std::shared_ptr<const void> owner_;
  bool is_file_ = false;
  bool is_unchanged_ = false;  // since it was written, by its modification time
  std::map<std::string, std::string, std::less<>> metadata_;
  std::map<std::string, BundleTensor> tensors_;

  mutable std::mutex mutex_;
  mutable std::set<std::string> verified_;  // guarded by mutex_
};

}  // namespace tandem

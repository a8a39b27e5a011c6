#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace tandem {

// The operating system's view of files. All system calls of Tandem are here and in path_guard.

// Which content a path had at one moment. A file that is replaced or written to gets another
// identity; the same file reached by two names has one.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;  // bytes
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;  // archives and build systems set the other one back

  auto operator<=>(const FileIdentity&) const = default;
};

// Throws Error(kNotFound) when nothing is there, Error(kIo) when it is no regular file.
FileIdentity IdentityOf(const std::filesystem::path& path);

// A whole file, mapped read-only and shared with every process that maps it. The mapping outlives
// renaming, replacing and deleting the file; a file that is truncated in place while it is mapped
// raises SIGBUS on access, as everywhere. Immutable, hence safe from any thread.
class MappedFile {
 public:
  // Throws as IdentityOf; Error(kIo) when the system cannot map it.
  static std::shared_ptr<const MappedFile> Open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  ByteSpan bytes() const { return {data_, identity_.size}; }
  const FileIdentity& identity() const { return identity_; }
  const std::filesystem::path& path() const { return path_; }

  // Takes the pages that were read out of this process's resident memory. They stay in the system's
  // page cache, and come back when they are read again.
  void ReleasePages() const;

 private:
  MappedFile() = default;

  const std::byte* data_ = nullptr;
  FileIdentity identity_;
  std::filesystem::path path_;
};

// The content of a text file. Throws as MappedFile::Open.
std::string ReadTextFile(const std::filesystem::path& path);

// A new content of a file, which appears at its path whole or not at all: readers see the old file
// or the new one, never a part. What the system refuses is an Error(kIo); the old file is then as
// it was.
class AtomicFile {
 public:
  // Creates a temporary file beside `path`; its name is that of `path` with a dot and six
  // characters.
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();  // without Commit: as if nothing had been

  void Write(ByteSpan bytes);

  // Waits until the content is on the disk, then puts it in place. `mtime_ns` becomes the time of
  // its modification, if it is given.
  void Commit(std::optional<int64_t> mtime_ns = std::nullopt);

  // Deletes temporary files for `path` whose process was killed. Nobody may be writing it.
  static void RemoveLeftovers(const std::filesystem::path& path);

 private:
  std::filesystem::path path_;
  std::string temporary_;  // empty once it is in place
  int file_ = -1;
};

// When a file was last used, as MarkAsUsed said or the system did; nanoseconds since 1970. Throws
// as IdentityOf.
int64_t LastUse(const std::filesystem::path& path);

// Says that a file is used now, if it was not said within the last hour. Its content and the time
// of its modification stay; where that is not allowed, nothing happens.
void MarkAsUsed(const std::filesystem::path& path);

// Keeps other holders for the same folder waiting, in this process and in others. Nothing is
// created in the folder.
class FolderLock {
 public:
  // Throws Error(kNotFound) or Error(kIo).
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int file_ = -1;
};

// Replaces `path` by a file that holds `content`, as AtomicFile.
void WriteFileAtomically(const std::filesystem::path& path, std::string_view content);

}  // namespace tandem

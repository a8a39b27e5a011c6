#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "base/strings.h"

namespace tandem {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int get() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void ThrowSystemError(std::string_view action, const std::filesystem::path& path) {
  const int number = errno;
  const ErrorCode code =
      number == ENOENT || number == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  throw Error(code, Concat("cannot ", action, " '", path.string(),
                           "': ", std::generic_category().message(number)));
}

constexpr int64_t kSecond = 1'000'000'000;  // in nanoseconds
constexpr std::string_view kTemporarySuffix = ".XXXXXX";

int64_t Nanoseconds(const struct timespec& time) {
  return time.tv_sec * kSecond + time.tv_nsec;
}

std::filesystem::path FolderOf(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

FileIdentity IdentityOf(const struct stat& info, const std::filesystem::path& path) {
  if (!S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::kIo, Concat("'", path.string(), "' is not a regular file"));
  }
  return {info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size), Nanoseconds(info.st_mtim),
          Nanoseconds(info.st_ctim)};
}

}  // namespace

FileIdentity IdentityOf(const std::filesystem::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) ThrowSystemError("read", path);
  return IdentityOf(info, path);
}

std::shared_ptr<const MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must fail below, not wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) ThrowSystemError("open", path);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) ThrowSystemError("read", path);

  std::shared_ptr<MappedFile> mapped(new MappedFile);
  mapped->path_ = path;
  FileIdentity identity = IdentityOf(info, path);
  if (identity.size > 0) {  // an empty range cannot be mapped
    void* address = ::mmap(nullptr, identity.size, PROT_READ, MAP_SHARED, file.get(), 0);
    if (address == MAP_FAILED) ThrowSystemError("map", path);
    mapped->data_ = static_cast<const std::byte*>(address);
  }
  mapped->identity_ = identity;
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), identity_.size);
}

void MappedFile::ReleasePages() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), identity_.size, MADV_DONTNEED);
}

std::string ReadTextFile(const std::filesystem::path& path) {
  const auto file = MappedFile::Open(path);
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(Concat(path_.string(), kTemporarySuffix)) {
  file_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (file_ < 0) ThrowSystemError("create a file beside", path_);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  ::close(file_);
}

void AtomicFile::Write(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) ThrowSystemError("write", temporary_);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::Commit(std::optional<int64_t> mtime_ns) {
  if (::fchmod(file_, 0644) != 0) ThrowSystemError("set the mode of", temporary_);
  if (mtime_ns) {
    const struct timespec time{*mtime_ns / kSecond, *mtime_ns % kSecond};
    const std::array<struct timespec, 2> times{time, time};
    if (::futimens(file_, times.data()) != 0) ThrowSystemError("set the time of", temporary_);
  }
  if (::fsync(file_) != 0) ThrowSystemError("sync", temporary_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) ThrowSystemError("replace", path_);
  temporary_.clear();
}

void AtomicFile::RemoveLeftovers(const std::filesystem::path& path) {
  const std::string start = path.filename().string() + ".";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(FolderOf(path), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(start) &&
        name.size() == path.filename().string().size() + kTemporarySuffix.size()) {
      std::filesystem::remove(entry.path(), ignored);
    }
  }
}

int64_t LastUse(const std::filesystem::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) ThrowSystemError("read", path);
  return Nanoseconds(info.st_atim);
}

void MarkAsUsed(const std::filesystem::path& path) {
  struct timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (Nanoseconds(now) - LastUse(path) < 3600 * kSecond) return;
  const std::array<struct timespec, 2> times{now, {0, UTIME_OMIT}};
  ::utimensat(AT_FDCWD, path.c_str(), times.data(), 0);
}

FolderLock::FolderLock(const std::filesystem::path& folder) {
  file_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file_ < 0) ThrowSystemError("open", folder);
  while (::flock(file_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    ::close(file_);
    ThrowSystemError("lock", folder);
  }
}

FolderLock::~FolderLock() {
  ::close(file_);
}

void WriteFileAtomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.Write(std::as_bytes(std::span(content)));
  file.Commit();
}

}  // namespace tandem

#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace tandem {

// Zeroed memory that starts on a cache line.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes)
      : data_(new (std::align_val_t{kAlignment}) std::byte[bytes]()), size_(bytes) {}

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Delete {
    void operator()(std::byte* data) const {
      ::operator delete[](data, std::align_val_t{kAlignment});
    }
  };

  std::unique_ptr<std::byte[], Delete> data_;
  size_t size_ = 0;
};

}  // namespace tandem

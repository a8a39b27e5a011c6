#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/data_type.h"
#include "base/file.h"
#include "weights/digest.h"

namespace tandem {

// A constant initializer of a model and where its bytes are: in a mapped file, or in memory that
// somebody else owns (an inline initializer, or one that ONNX Runtime's optimizer made).
//
// Bytes are little-endian and row-major, as ONNX's raw_data; 4-bit elements are packed two to a
// byte. They may be misaligned for their type: a data file can hold them at any offset.
struct Weight {
  std::string name;
  DataType type = DataType::kUndefined;
  Shape shape;
  ByteSpan bytes;
  std::shared_ptr<const MappedFile> file;  // keeps `bytes` alive; null when they are borrowed
  uint64_t offset = 0;                     // of the bytes in `file`
};

// A weight in `file`. Throws Error(kInvalidModel), naming weight, file, found and expected, when
// the range is not inside the file or `length` does not fit type and shape.
Weight WeightInFile(std::string name, DataType type, Shape shape,
                    std::shared_ptr<const MappedFile> file, uint64_t offset, uint64_t length);

// A weight in memory that the caller keeps alive. Throws as WeightInFile.
Weight WeightInMemory(std::string name, DataType type, Shape shape, ByteSpan bytes);

// A weight that owns its bytes. Throws as WeightInFile.
std::shared_ptr<const Weight> OwnedWeight(std::string name, DataType type, Shape shape,
                                          std::vector<std::byte> bytes);

// What a weight *is*: its content, whatever its name and place. Equal keys mean interchangeable
// weights.
struct WeightKey {
  Digest digest;
  DataType type = DataType::kUndefined;
  Shape shape;

  auto operator<=>(const WeightKey&) const = default;
};

DigestBuilder& operator<<(DigestBuilder& builder, const WeightKey& key);

}  // namespace tandem

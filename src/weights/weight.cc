#include "weights/weight.h"

#include "base/error.h"
#include "base/strings.h"

namespace tandem {
namespace {

void CheckLength(const Weight& weight, uint64_t length) {
  const uint64_t expected = TensorBytes(weight.type, weight.shape);
  if (length != expected) {
    const std::string place = weight.file ? Concat(" in '", weight.file->path().string(), "'") : "";
    throw Error(ErrorCode::kInvalidModel,
                Concat("weight '", weight.name, "'", place, ": found ", length, " bytes, expected ",
                       expected, " for ", Name(weight.type), ShapeText(weight.shape)));
  }
}

}  // namespace

Weight WeightInFile(std::string name, DataType type, Shape shape,
                    std::shared_ptr<const MappedFile> file, uint64_t offset, uint64_t length) {
  Weight weight{std::move(name), type, std::move(shape), {}, std::move(file), offset};
  CheckLength(weight, length);
  const ByteSpan content = weight.file->bytes();
  if (offset > content.size() || length > content.size() - offset) {
    throw Error(ErrorCode::kInvalidModel,
                Concat("weight '", weight.name, "': file '", weight.file->path().string(), "' has ",
                       content.size(), " bytes, expected at least ", CheckedAdd(offset, length),
                       " (", length, " at offset ", offset, ")"));
  }
  weight.bytes = content.subspan(offset, length);
  return weight;
}

Weight WeightInMemory(std::string name, DataType type, Shape shape, ByteSpan bytes) {
  Weight weight{std::move(name), type, std::move(shape), bytes, nullptr, 0};
  CheckLength(weight, bytes.size());
  return weight;
}

std::shared_ptr<const Weight> OwnedWeight(std::string name, DataType type, Shape shape,
                                          std::vector<std::byte> bytes) {
  struct Owner {
    std::vector<std::byte> bytes;
    Weight weight;
  };
  auto owner = std::make_shared<Owner>();
  owner->bytes = std::move(bytes);
  owner->weight = WeightInMemory(std::move(name), type, std::move(shape), owner->bytes);
  return {owner, &owner->weight};
}

DigestBuilder& operator<<(DigestBuilder& builder, const WeightKey& key) {
  return builder.Add(key.digest).Add(static_cast<int64_t>(key.type)).Add(AsBytes(key.shape));
}

}  // namespace tandem

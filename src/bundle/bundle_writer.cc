#include "bundle/bundle_writer.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"
#include "bundle/bundle_format.h"

namespace tandem {
namespace {

const std::string kZeroDigest(Digest::kHexDigits, '0');

// Where a tensor of `bytes` begins that may begin at `offset`.
uint64_t Begin(uint64_t offset, uint64_t bytes) {
  return AlignUp(offset, bytes >= kLargeTensor ? kPage : kCacheLine);
}

// To whole seconds and even: what every file system can keep.
int64_t StorableNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count() / 2 * 2'000'000'000;
}

}  // namespace

void BundleWriter::AddAll(const std::shared_ptr<const Bundle>& bundle, Verify verify) {
  for (const auto& [name, unused] : bundle->tensors()) {
    entries_.try_emplace(name, Entry{bundle->GetVerified(name, verify), bundle});
  }
}

void BundleWriter::Add(const std::string& name, DataType type, const Shape& shape, ByteSpan bytes,
                       std::shared_ptr<const void> owner) {
  if (entries_.contains(name)) return;
  const bool has_type = std::any_of(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                                    [&](const SafetensorsType& t) { return t.type == type; });
  BundleTensor tensor{type, shape, bytes, DigestOf(bytes)};
  if (!has_type) {
    tensor.type = DataType::kUint8;
    tensor.shape = {static_cast<int64_t>(bytes.size())};
  }
  entries_.emplace(name, Entry{std::move(tensor), std::move(owner)});
}

std::string BundleWriter::Header(int64_t mtime_ns) const {
  nlohmann::json digests = nlohmann::json::object();
  nlohmann::json header = nlohmann::json::object();
  uint64_t offset = 0;
  size_t pads = 0;
  const auto add = [&](const std::string& name, std::string_view type, const Shape& shape,
                       uint64_t bytes) {
    header[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  };
  for (const auto& [name, entry] : entries_) {
    const BundleTensor& tensor = entry.tensor;
    if (const uint64_t gap = Begin(offset, tensor.bytes.size()) - offset; gap != 0) {
      add(Concat(kPadPrefix, pads++), "U8", {static_cast<int64_t>(gap)}, gap);
    }
    const auto type = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                                   [&](const SafetensorsType& t) { return t.type == tensor.type; });
    add(name, type->name, tensor.shape, tensor.bytes.size());
    digests[name] = tensor.digest.Hex();
  }
  nlohmann::json metadata = metadata_;
  metadata[kFormatKey] = Concat(kBundleMajor, ".", kBundleMinor);
  metadata[kMtimeKey] = std::to_string(mtime_ns);
  metadata[kDigestsKey] = digests.dump();
  metadata[kHeaderKey] = kZeroDigest;
  header["__metadata__"] = std::move(metadata);

  std::string text = header.dump();
  text.resize(AlignUp(kLengthBytes + text.size(), kPage) - kLengthBytes, ' ');
  const std::string digest = DigestOf(std::as_bytes(std::span(text))).Hex();
  const size_t place = text.find(Concat("\"", kHeaderKey, "\":\"", kZeroDigest, "\""));
  text.replace(text.find(kZeroDigest, place), Digest::kHexDigits, digest);
  return text;
}

template <typename Sink>
void BundleWriter::Emit(int64_t mtime_ns, Sink&& sink) const {
  const std::string header = Header(mtime_ns);
  if (header.size() > kMaxHeader) {
    throw Error(ErrorCode::kUnsupported, Concat("a bundle's header would take ", header.size(),
                                                " bytes, at most ", kMaxHeader, " are allowed"));
  }
  const uint64_t length = header.size();
  sink(std::as_bytes(std::span(&length, 1)));
  sink(std::as_bytes(std::span(header)));
  const std::vector<std::byte> zeros(kPage);
  uint64_t offset = 0;
  for (const auto& [name, entry] : entries_) {
    const ByteSpan bytes = entry.tensor.bytes;
    const uint64_t begin = Begin(offset, bytes.size());
    sink(ByteSpan(zeros).first(begin - offset));
    sink(bytes);
    offset = begin + bytes.size();
  }
}

uint64_t BundleWriter::size() const {
  uint64_t data = 0;
  for (const auto& [name, entry] : entries_) {
    data = Begin(data, entry.tensor.bytes.size()) + entry.tensor.bytes.size();
  }
  return kLengthBytes + Header(0).size() + data;
}

std::string BundleWriter::ToBytes() const {
  std::string bytes;
  bytes.reserve(size());
  Emit(0, [&](ByteSpan part) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  return bytes;
}

void BundleWriter::Write(const std::filesystem::path& path) const {
  AtomicFile::RemoveLeftovers(path);
  AtomicFile file(path);
  const int64_t mtime_ns = StorableNow();
  Emit(mtime_ns, [&](ByteSpan part) { file.Write(part); });
  file.Commit(mtime_ns);
}

}  // namespace tandem

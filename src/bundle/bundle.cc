#include "bundle/bundle.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"
#include "bundle/bundle_format.h"

namespace tandem {

std::shared_ptr<const Bundle> Bundle::Open(const std::shared_ptr<const MappedFile>& file) {
  const ByteSpan bytes = file->bytes();
  const int64_t mtime_ns = file->identity().mtime_ns;
  std::shared_ptr<Bundle> bundle(new Bundle("'" + file->path().string() + "'", bytes, file));
  bundle->is_file_ = true;
  bundle->is_unchanged_ = bundle->Metadata(kMtimeKey) == std::to_string(mtime_ns);
  return bundle;
}

std::shared_ptr<const Bundle> Bundle::FromMemory(std::string name, ByteSpan bytes,
                                                 std::shared_ptr<const void> owner) {
  return std::shared_ptr<Bundle>(new Bundle(std::move(name), bytes, std::move(owner)));
}

Bundle::Bundle(std::string name, ByteSpan bytes, std::shared_ptr<const void> owner)
    : name_(std::move(name)), owner_(std::move(owner)) {
  try {
    ReadHeader(bytes);
  } catch (const nlohmann::json::exception& error) {
    Fail(Concat("its header is damaged: ", error.what()));
  }
}

void Bundle::Fail(const std::string& what) const {
  throw Error(ErrorCode::kInvalidModel, Concat("bundle ", name_, ": ", what));
}

void Bundle::ReadHeader(ByteSpan bytes) {
  uint64_t length = 0;
  if (bytes.size() < kLengthBytes)
    Fail(Concat("found ", bytes.size(), " bytes, which is no file of this kind"));
  std::memcpy(&length, bytes.data(), kLengthBytes);
  const uint64_t rest = bytes.size() - kLengthBytes;
  if (length > std::min(rest, kMaxHeader)) {
    Fail(Concat("found a header of ", length, " bytes, expected at most ",
                std::min(rest, kMaxHeader)));
  }
  const std::string header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const auto json = nlohmann::json::parse(header);
  if (!json.is_object() || !json.contains("__metadata__")) Fail("its header has no '__metadata__'");
  metadata_ = json["__metadata__"].get<decltype(metadata_)>();
  const std::string format = Metadata(kFormatKey);
  if (format.substr(0, format.find('.')) != std::to_string(kBundleMajor)) {
    Fail(Concat("found format '", format, "', expected ", kBundleMajor,
                ".x: compile the models again with this version"));
  }
  CheckHeaderDigest(header);

  const auto digests = nlohmann::json::parse(Metadata(kDigestsKey));
  const ByteSpan data = bytes.subspan(kLengthBytes + length);
  uint64_t end_of_data = 0;
  for (const auto& [tensor_name, entry] : json.items()) {
    if (tensor_name == "__metadata__") continue;
    const auto dtype = entry.at("dtype").get<std::string>();
    const auto type = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                                   [&](const SafetensorsType& t) { return t.name == dtype; });
    const auto offsets = entry.at("data_offsets").get<std::vector<uint64_t>>();
    if (type == kSafetensorsTypes.end() || offsets.size() != 2 || offsets[0] > offsets[1]) {
      Fail(Concat("tensor '", tensor_name, "' has type ", dtype, " and offsets ",
                  Join(offsets, ", ")));
    }
    end_of_data = std::max(end_of_data, offsets[1]);
    if (offsets[1] > data.size()) {
      Fail(Concat("tensor '", tensor_name, "' ends at ", offsets[1], " of ", data.size(),
                  " bytes of data: the file is truncated"));
    }
    BundleTensor tensor{type->type,
                        entry.at("shape").get<Shape>(),
                        data.subspan(offsets[0], offsets[1] - offsets[0]),
                        {}};
    if (tensor.bytes.size() != TensorBytes(tensor.type, tensor.shape)) {
      Fail(Concat("tensor '", tensor_name, "' of type ", dtype, ShapeText(tensor.shape), " has ",
                  tensor.bytes.size(), " bytes"));
    }
    if (tensor_name.starts_with(kPadPrefix)) continue;
    const auto digest = DigestFromHex(digests.at(tensor_name).get<std::string>());
    if (!digest) Fail(Concat("tensor '", tensor_name, "' has no digest"));
    tensor.digest = *digest;
    tensors_.emplace(tensor_name, std::move(tensor));
  }
  if (end_of_data != data.size()) {
    Fail(Concat("found ", data.size(), " bytes of data, expected ", end_of_data));
  }
}

// The digest is that of the header with zeros in its place.
void Bundle::CheckHeaderDigest(std::string header) const {
  const std::string found = Metadata(kHeaderKey);
  const size_t place = header.find(Concat("\"", kHeaderKey, "\":\"", found, "\""));
  if (found.size() != Digest::kHexDigits || place == std::string::npos)
    Fail("its header has no digest");
  header.replace(header.find(found, place + kHeaderKey.size() + 2), Digest::kHexDigits,
                 Digest::kHexDigits, '0');
  const std::string expected = DigestOf(std::as_bytes(std::span(header))).Hex();
  if (found != expected) {
    Fail(Concat("its header is damaged: found digest ", found, ", expected ", expected));
  }
}

std::string Bundle::Metadata(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? "" : found->second;
}

const BundleTensor& Bundle::Get(const std::string& tensor) const {
  const auto found = tensors_.find(tensor);
  if (found == tensors_.end()) Fail(Concat("it has no tensor '", tensor, "'"));
  return found->second;
}

const BundleTensor& Bundle::GetVerified(const std::string& tensor, Verify verify) const {
  const BundleTensor& found = Get(tensor);
  if (verify == Verify::kOff || (verify == Verify::kAuto && is_unchanged_)) return found;
  {
    const std::lock_guard lock(mutex_);
    if (verified_.contains(tensor)) return found;
  }
  const Digest digest = DigestOf(found.bytes);
  if (digest != found.digest) {
    Fail(Concat("tensor '", tensor, "' is damaged: found digest ", digest.Hex(), ", expected ",
                found.digest.Hex(), "; compile the models again or restore the file"));
  }
  const std::lock_guard lock(mutex_);
  verified_.insert(tensor);
  return found;
}

}  // namespace tandem

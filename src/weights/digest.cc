#include "weights/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <charconv>
#include <cstdio>

namespace tandem {

std::string Digest::Hex() const {
  std::array<char, Digest::kHexDigits + 1> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text.data();
}

std::optional<Digest> DigestFromHex(std::string_view text) {
  constexpr size_t kHalf = Digest::kHexDigits / 2;
  if (text.size() != Digest::kHexDigits) return std::nullopt;
  const auto half = [&](size_t at, uint64_t& value) {
    const char* last = text.data() + at + kHalf;
    return std::from_chars(text.data() + at, last, value, 16).ptr == last;
  };
  Digest digest;
  if (!half(0, digest.high) || !half(kHalf, digest.low)) return std::nullopt;
  return digest;
}

Digest DigestOf(ByteSpan bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

struct DigestBuilder::State {
  XXH3_state_t xxh3;
};

DigestBuilder::DigestBuilder() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh3);
}

DigestBuilder::~DigestBuilder() = default;

DigestBuilder& DigestBuilder::Add(ByteSpan bytes) {
  const uint64_t length = bytes.size();
  XXH3_128bits_update(&state_->xxh3, &length, sizeof(length));
  XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size());
  return *this;
}

DigestBuilder& DigestBuilder::Add(std::string_view text) {
  return Add(std::as_bytes(std::span(text)));
}

DigestBuilder& DigestBuilder::Add(int64_t number) {
  return Add(std::as_bytes(std::span(&number, 1)));
}

DigestBuilder& DigestBuilder::Add(const Digest& digest) {
  return Add(std::as_bytes(std::span(&digest, 1)));
}

Digest DigestBuilder::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh3);
  return {hash.low64, hash.high64};
}

}  // namespace tandem

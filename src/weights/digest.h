#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace tandem {

// A 128-bit XXH3 digest (https://xxhash.com): fast enough to read every weight once, and wide
// enough that two different weights never share one by chance. It finds damage and mix-ups, not
// forgery.
struct Digest {
  uint64_t low = 0;
  uint64_t high = 0;

  auto operator<=>(const Digest&) const = default;

  static constexpr size_t kHexDigits = 32;

  // kHexDigits lower-case hexadecimal digits, `high` first.
  std::string Hex() const;
};

Digest DigestOf(ByteSpan bytes);

// What Hex() gave; none for another text.
std::optional<Digest> DigestFromHex(std::string_view text);

// The digest of several parts. Each part is preceded by its length, so that moving a byte from one
// part to the next changes the result. Not safe for use from several threads at once.
class DigestBuilder {
 public:
  DigestBuilder();
  ~DigestBuilder();

  DigestBuilder& Add(ByteSpan bytes);
  DigestBuilder& Add(std::string_view text);
  DigestBuilder& Add(int64_t number);
  DigestBuilder& Add(const Digest& digest);

  Digest Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem

template <>
struct std::hash<tandem::Digest> {
  size_t operator()(const tandem::Digest& digest) const noexcept { return digest.low; }
};

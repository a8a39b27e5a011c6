#pragma once

#include <initializer_list>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace tandem {

// The arguments, streamed one after the other: Concat("weight '", name, "'").
template <typename... Args>
std::string Concat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}

// `items` with `separator` between them.
template <typename Range>
std::string Join(const Range& items, std::string_view separator) {
  std::ostringstream out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out << separator;
    out << item;
    first = false;
  }
  return std::move(out).str();
}

// A shape as users read it: [1,3,?,64], where a negative dimension is unknown.
std::string ShapeText(std::span<const int64_t> shape);

std::string LowerCase(std::string_view text);

// The candidate with the fewest single-character edits from `word`; empty when none is near enough
// to be a plausible slip (more than a third of the word differs).
std::string NearestName(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace tandem

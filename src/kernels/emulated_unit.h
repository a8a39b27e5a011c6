#pragma once

#include <array>
#include <cstring>
#include <stdexcept>

#include "kernels/tiles.h"

namespace tandem {

// AMX in plain C++, as Intel's manual defines the instructions (64-ia-32 Architectures Software
// Developer's Manual, volume 2): for tests on machines without it. Throws where a CPU would trap,
// and when tiles are configured that were not released.
class EmulatedUnit {
 public:
  // LDTILECFG
  static void Configure(const TileConfig& config) {
    auto& [tiles, is_configured] = OfThread();
    Require(!is_configured, "released before");
    uint8_t bytes[64];
    std::memcpy(bytes, &config, sizeof(bytes));
    Require(bytes[0] == 1, "palette 1");
    for (size_t i = 1; i < 16; ++i) Require(bytes[i] == 0, "start_row and reserved bytes of 0");
    for (size_t i = 0; i < 16; ++i) {
      const size_t row_bytes = bytes[16 + 2 * i] + 256U * bytes[17 + 2 * i];
      const size_t rows = bytes[48 + i];
      Require(row_bytes <= kRowBytes && rows <= kRows, "at most 16 rows of 64 bytes");
      Require((row_bytes == 0) == (rows == 0), "no half of a shape");
      Require(i < tiles.size() || rows == 0, "8 tiles");
      if (i < tiles.size()) tiles[i] = {.rows = rows, .row_bytes = row_bytes, .bytes = {}};
    }
    is_configured = true;
  }
  // TILERELEASE
  static void Release() { OfThread() = {}; }
  // TILEZERO
  template <int kTile>
  static void Zero() {
    Clear(Used(kTile));
  }
  // TILELOADD
  template <int kTile>
  static void Load(const void* from, uint64_t stride) {
    Tile& tile = Used(kTile);
    Clear(tile);
    for (size_t r = 0; r < tile.rows; ++r) {
      std::memcpy(tile.bytes[r], static_cast<const uint8_t*>(from) + r * stride, tile.row_bytes);
    }
  }
  // TILESTORED
  template <int kTile>
  static void Store(void* to, uint64_t stride) {
    const Tile& tile = Used(kTile);
    for (size_t r = 0; r < tile.rows; ++r) {
      std::memcpy(static_cast<uint8_t*>(to) + r * stride, tile.bytes[r], tile.row_bytes);
    }
  }
  // TDPBSSD
  template <int kSums, int kA, int kB>
  static void Dot() {
    static_assert(kSums != kA && kSums != kB && kA != kB, "three tiles");
    Tile& sums = Used(kSums);
    const Tile& a = Used(kA);
    const Tile& b = Used(kB);
    Require(sums.row_bytes % 4 == 0 && a.row_bytes % 4 == 0 && b.row_bytes % 4 == 0, "words");
    Require(sums.rows == a.rows, "as many rows of sums as of a");
    Require(sums.row_bytes == b.row_bytes, "as many columns of sums as of b");
    Require(a.row_bytes / 4 == b.rows, "as many columns of a as rows of b");
    for (size_t m = 0; m < sums.rows; ++m) {
      for (size_t n = 0; n < sums.row_bytes / 4; ++n) {
        uint32_t sum = 0;  // wraps around
        std::memcpy(&sum, &sums.bytes[m][4 * n], sizeof(sum));
        for (size_t i = 0; i < a.row_bytes; ++i) {
          const int product = static_cast<int8_t>(a.bytes[m][i]) *
                              static_cast<int8_t>(b.bytes[i / 4][4 * n + i % 4]);
          sum += static_cast<uint32_t>(product);
        }
        std::memcpy(&sums.bytes[m][4 * n], &sum, sizeof(sum));
      }
    }
  }

 private:
  static constexpr size_t kRows = 16;
  static constexpr size_t kRowBytes = 64;
  struct Tile {
    size_t rows;
    size_t row_bytes;
    uint8_t bytes[kRows][kRowBytes];
  };

  static void Require(bool is_so, const char* what) {
    if (!is_so) throw std::logic_error(what);
  }
  static Tile& Used(size_t tile) {
    Tile& used = OfThread().tiles.at(tile);
    Require(used.rows > 0, "a configured tile");
    return used;
  }
  static void Clear(Tile& tile) { std::memset(tile.bytes, 0, sizeof(tile.bytes)); }

  struct State {
    std::array<Tile, 8> tiles;
    bool is_configured;
  };

  static State& OfThread() {
    thread_local State state{};
    return state;
  }
};

}  // namespace tandem

#pragma once

#include <cstdint>

namespace tandem {

// What LDTILECFG reads: the shapes of the registers of a thread, called tiles, of up to 16 rows of
// up to 64 bytes each. Tiles without rows are unused.
struct TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};  // there are 8 tiles
  uint8_t rows[16] = {};

  void Shape(int tile, uint64_t tile_rows, uint64_t tile_row_bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(tile_row_bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

// Tiles are configured while this lives. `Unit` is AmxUnit (kernels/amx_unit.h), or in tests what
// stands for it:
//
//   Unit::Configure(const TileConfig&), Unit::Release(): of the calling thread
//   Unit::Zero<tile>(), Unit::Load<tile>(from, stride), Unit::Store<tile>(to, stride)
//   Unit::Dot<sums, a, b>(): sums[m][n] += sum over k and i of a[m][4 k + i] * b[k][4 n + i], with
//   sums of 32 bits, and signed bytes
template <typename Unit>
class TileScope {
 public:
  explicit TileScope(const TileConfig& config) { Unit::Configure(config); }
  ~TileScope() { Unit::Release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

}  // namespace tandem

#pragma once

#include <cstdint>
#include <functional>

#include "base/aligned_buffer.h"
#include "kernels/matrix_source.h"

namespace tandem {

// Calls body(0) ... body(count - 1), in any order and on any threads; returns when all are done.
using ParallelFor = std::function<void(uint64_t count, const std::function<void(uint64_t)>& body)>;

// One after the other on the calling thread.
void Serial(uint64_t count, const std::function<void(uint64_t)>& body);

// The layouts that the CPU kernels read. A matrix is cut into panels of 16 outputs; a panel holds
// its inputs in groups, so that the kernels read it from front to end once:
//
//   kF32   groups of 4 inputs: [4 inputs][16 outputs] of f32
//   kF16   the same of f16
//   kBf16  the same of bf16
//   kU8    groups of 4 inputs: [16 outputs][4 inputs] of u8
//   kU4    groups of 8 inputs: [16 outputs][4 bytes], byte b = input b | input 4+b << 4
//
// The numbers are the ids by which files name the layouts: they never change their meaning.
enum class Layout : uint32_t { kF32 = 1, kF16 = 2, kBf16 = 3, kU8 = 4, kU4 = 5 };

constexpr uint64_t kPanelOutputs = 16;

// Inputs of a group, and bytes of a group of one panel.
constexpr uint64_t GroupInputs(Layout layout) {
  return layout == Layout::kU4 ? 8 : 4;
}
constexpr uint64_t GroupBytes(Layout layout) {
  return layout == Layout::kF32 ? 256 : layout == Layout::kU8 || layout == Layout::kU4 ? 64 : 128;
}

// What a packed matrix is, apart from its bytes; the meaning of the fields is that of PackedMatrix.
struct PackedSpec {
  Layout layout = Layout::kF32;
  uint64_t n = 0;
  uint64_t k = 0;
  uint64_t block_k = 0;
  bool has_zero_points = false;
  float zero_point = 0;
};

// A weight matrix in the layout of the kernels. Outputs beyond `n` and inputs beyond `k` that fill
// the last panel and group are zero. Immutable once packed, hence safe from any thread.
class PackedMatrix {
 public:
  // Packs `source`, its panels in parallel. A quantized matrix keeps its codes when a group of
  // inputs never straddles two scales and zero points are integers; otherwise it is packed as f32,
  // dequantized. Needs n > 0 and k > 0.
  static PackedMatrix Pack(const MatrixSource& source, const ParallelFor& parallel_for);

  // A matrix that was packed before, in memory that `owner` keeps: bytes() of the same spec().
  // Throws Error(kInvalidModel) when the bytes cannot be those of `spec`.
  static PackedMatrix View(const PackedSpec& spec, ByteSpan bytes,
                           std::shared_ptr<const void> owner);

  const PackedSpec& spec() const { return spec_; }
  uint64_t n() const { return spec_.n; }
  uint64_t k() const { return spec_.k; }
  Layout layout() const { return spec_.layout; }
  ByteSpan bytes() const { return bytes_; }

  uint64_t panels() const { return CeilDivide(n(), kPanelOutputs); }
  const std::byte* panel(uint64_t index) const { return bytes_.data() + index * panel_bytes_; }

  // Quantized layouts only. A block of block_k() inputs has one scale and one zero point for each
  // output; block_k() is a multiple of the group's inputs, or k.
  uint64_t block_k() const { return spec_.block_k; }
  uint64_t blocks() const { return CeilDivide(k(), block_k()); }
  // [blocks()][16] of the panel.
  const float* scales(uint64_t panel) const;
  // [blocks()][16] of the panel; null when zero_point() is that of every block.
  const uint8_t* zero_points(uint64_t panel) const;
  float zero_point() const { return spec_.zero_point; }

  // out[0 .. k) = the inputs of one output: a row of an embedding table.
  void CopyOutput(uint64_t output, float* out) const;

 private:
  explicit PackedMatrix(const PackedSpec& spec);

  void PackFloats(const MatrixSource& source, uint64_t panel, std::byte* storage) const;
  void PackCodes(const MatrixSource& source, uint64_t panel, std::byte* storage) const;
  void PackBlockValues(const MatrixSource& source, uint64_t panel, std::byte* storage) const;

  bool IsQuantized() const { return layout() == Layout::kU8 || layout() == Layout::kU4; }
  uint64_t panel_blocks() const { return blocks() * kPanelOutputs; }

  PackedSpec spec_;
  uint64_t panel_bytes_ = 0;
  uint64_t scales_offset_ = 0;
  uint64_t zero_points_offset_ = 0;
  uint64_t size_ = 0;  // of all
  ByteSpan bytes_;     // panels, scales, zero points
  std::shared_ptr<const void> owner_;
};

}  // namespace tandem

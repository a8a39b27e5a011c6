#pragma once

#include <memory>
#include <openvino/runtime/tensor.hpp>
#include <vector>

#include "device/ops/broadcast.h"
#include "kernels/kernels.h"

namespace tandem {

// The arithmetic of SharedMatMul, on the threads of the calling TBB arena.

// A product while it is computed: y [rows][n] = x * w + addends.
class Product {
 public:
  Product(const PackedMatrix& w, const ov::Shape& shape) : w_(&w), shape_(shape), result_(shape) {}

  const PackedMatrix& w() const { return *w_; }
  // Of x * w; and with the addends, over which it may repeat.
  const ov::Shape& shape() const { return shape_; }
  const ov::Shape& result() const { return result_; }
  void Repeat(const ov::Shape& result) { result_ = result; }
  bool repeats() const { return result_ != shape_; }

  // Adds what broadcasts to shape().
  void AddTo(const BroadcastRows& addend);

  // Where it is computed: in memory that stays, or in its own.
  void MakeAt(float* y) { y_ = y; }
  const float* MakeApart();

  // Rows of x in 8 bits, to be read in place of x.
  void Read(const QuantizedRows& codes) { codes_ = &codes; }
  const QuantizedRows* codes() const { return codes_; }

  // The outputs of some rows and panels, which begin at `to`.
  void Compute(const float* x, Range rows, Range panels, Outputs to) const;
  // Where they are in y.
  Outputs Place(Range rows, Range panels) const {
    return Outputs{y_, w_->n()}.From(rows.first, panels.first * kPanelOutputs);
  }
  Range Columns(Range panels) const {
    return {panels.first * kPanelOutputs, std::min(panels.last * kPanelOutputs, w_->n())};
  }
  // Of `rows`, as many as to compute at a time.
  uint64_t RowsAtATime(uint64_t rows) const;

 private:
  const PackedMatrix* w_;
  ov::Shape shape_;
  ov::Shape result_;
  const QuantizedRows* codes_ = nullptr;  // null: x in f32
  Addend start_;                          // that of the addends with which the sums start
  std::vector<BroadcastRows> addends_;    // the others: added as panels are made
  float* y_ = nullptr;
  std::unique_ptr<float[]> apart_;
};

// to[0 ...) += the columns of row `row` of the addend.
void AddRow(const BroadcastRows& addend, uint64_t row, Range columns, float* to);

// Whether a product with w can read rows in 8 bits.
bool IsQuantized(const PackedMatrix& w);

// How rows are normalized first (kernels/row_ops.h).
struct Norm {
  const float* weight = nullptr;  // null: not at all
  float epsilon = 0;
};

// What the products of one x read: its rows, normalized and in 8 bits.
class ProductInput {
 public:
  // x [rows][k] must stay. With `int8`, products with a quantized weight read codes.
  ProductInput(const float* x, uint64_t rows, const Norm& norm, bool int8,
               std::vector<Product>& products);

  const float* x() const { return x_; }
  uint64_t rows() const { return rows_; }

 private:
  const float* x_;
  uint64_t rows_;
  std::unique_ptr<float[]> normalized_;
  std::vector<std::unique_ptr<QuantizedRows>> codes_;
};

// All rows of all products.
void ComputeAll(const float* x, uint64_t rows, const std::vector<Product>& products);

// Where a gated product goes: to rows of f32 or of codes.
struct GatedRows {
  Outputs floats;
  QuantizedRows* codes = nullptr;  // null: floats
};

// activation(gate) * up, of which neither has a y.
void ComputeGated(const ProductInput& input, Activation activation, const Product& gate,
                  const Product& up, const GatedRows& to);

}  // namespace tandem

#include "device/ops/products.h"

#include <algorithm>
#include <functional>

#include "device/parallel.h"

namespace tandem {
namespace {

// Panels are computed by twos: with many rows, the kernels take two at a time.
constexpr uint64_t kPair = 2;

// Calls body(panels) for ranges that make up all `panels`, each worth a task of its own when a
// panel takes `macs` multiply-adds.
void ForPanels(uint64_t panels, uint64_t macs, const std::function<void(Range)>& body) {
  const uint64_t grain = CeilDivide(kSerialMacs, std::max<uint64_t>(1, macs) * kPair);
  ParallelRanges(CeilDivide(panels, kPair), grain, [&](uint64_t first, uint64_t last) {
    body({first * kPair, std::min(last * kPair, panels)});
  });
}

// Calls body(rows, pair) for all rows, `many` at a time, and pairs of panels.
template <typename Body>
void ForPairs(uint64_t rows, uint64_t many, Range panels, const Body& body) {
  for (uint64_t row = 0; row < rows; row += many) {
    const Range part{row, std::min(rows, row + many)};
    for (uint64_t panel = panels.first; panel < panels.last; panel += kPair) {
      body(part, Range{panel, std::min(panels.last, panel + kPair)});
    }
  }
}

}  // namespace

void Product::AddTo(const BroadcastRows& addend) {
  const auto stride = addend.row_stride();
  if (!start_.exist() && stride && addend.step() == 1) {
    start_ = {addend.Row(0), *stride};
  } else {
    addends_.push_back(addend);
  }
}

const float* Product::MakeApart() {
  apart_ = std::make_unique_for_overwrite<float[]>(ov::shape_size(shape_));
  return y_ = apart_.get();
}

void Product::Compute(const float* x, Range rows, Range panels, Outputs to) const {
  const Range columns = Columns(panels);
  const Addend from = start_.From(rows.first, columns.first);
  if (codes_ != nullptr) {
    ActiveKernels().matmul_int8(*w_, *codes_, rows, from, to, panels);
  } else {
    ActiveKernels().matmul(*w_, x + rows.first * w_->k(), rows.size(), from, to, panels);
  }
  for (const BroadcastRows& addend : addends_) {
    for (uint64_t row = rows.first; row < rows.last; ++row) {
      AddRow(addend, row, columns, to.From(row - rows.first, 0).data);
    }
  }
}

uint64_t Product::RowsAtATime(uint64_t rows) const {
  // Rows in f32 share the work of dequantizing a panel.
  if (codes_ == nullptr) return std::max<uint64_t>(rows, 1);
  return ActiveKernels().RowsAtATime(w_->k());
}

void AddRow(const BroadcastRows& addend, uint64_t row, Range columns, float* to) {
  const float* from = addend.Row(row);
  if (addend.step() == 0) {
    for (uint64_t i = 0; i < columns.size(); ++i) to[i] += *from;
  } else {
    ActiveKernels().add(from + columns.first, columns.size(), to);
  }
}

bool IsQuantized(const PackedMatrix& w) {
  return w.layout() == Layout::kU4 || w.layout() == Layout::kU8;
}

ProductInput::ProductInput(const float* x, uint64_t rows, const Norm& norm, bool int8,
                           std::vector<Product>& products)
    : x_(x), rows_(rows) {
  bool reads_floats = false;
  for (size_t i = 0; i < products.size(); ++i) {
    Product& product = products[i];
    if (!int8 || !IsQuantized(product.w())) {
      reads_floats = true;
      continue;
    }
    const Product* before = i > 0 ? &products[i - 1] : nullptr;
    if (before != nullptr && before->codes() != nullptr && ShareRows(before->w(), product.w())) {
      product.Read(*before->codes());
    } else {
      product.Read(*codes_.emplace_back(std::make_unique<QuantizedRows>(product.w(), rows)));
    }
  }
  const bool normalizes = norm.weight != nullptr;
  if (codes_.empty() && !normalizes) return;

  // Row by row, so that what is normalized is in the cache when it is quantized.
  const uint64_t k = products.front().w().k();
  if (normalizes && reads_floats) normalized_ = std::make_unique_for_overwrite<float[]>(rows * k);
  ParallelRanges(rows, CeilDivide(kSerialElements, k), [&](uint64_t first, uint64_t last) {
    std::unique_ptr<float[]> row_apart;
    if (normalizes && !reads_floats) row_apart = std::make_unique_for_overwrite<float[]>(k);
    for (uint64_t row = first; row < last; ++row) {
      const float* in = x + row * k;
      if (normalizes) {
        float* to = reads_floats ? normalized_.get() + row * k : row_apart.get();
        ActiveKernels().rms_norm(in, norm.weight, norm.epsilon, k, to);
        in = to;
      }
      for (const auto& codes : codes_) {
        ActiveKernels().quantize({in, k}, *codes, {row, row + 1}, {0, codes->blocks()});
      }
    }
  });
  if (normalizes) x_ = normalized_.get();
}

// All panels of all products, counted through.
void ComputeAll(const float* x, uint64_t rows, const std::vector<Product>& products) {
  uint64_t panels = 0;
  for (const Product& product : products) panels += product.w().panels();
  const uint64_t macs = rows * products.front().w().k() * kPanelOutputs;
  ForPanels(panels, macs, [&](Range range) {
    uint64_t base = 0;
    for (const Product& product : products) {
      const uint64_t end = base + product.w().panels();
      const uint64_t from = std::max(range.first, base);
      const uint64_t to = std::min(range.last, end);
      if (from < to) {
        ForPairs(rows, product.RowsAtATime(rows), {from - base, to - base},
                 [&](Range part, Range pair) {
                   product.Compute(x, part, pair, product.Place(part, pair));
                 });
      }
      base = end;
    }
  });
}

// Pair by pair: what both products have made is still in the cache when it is gated, and then
// quantized. A pair of panels is one block of codes, or several.
void ComputeGated(const ProductInput& input, Activation activation, const Product& gate,
                  const Product& up, const GatedRows& to) {
  const uint64_t macs = 2 * input.rows() * gate.w().k() * kPanelOutputs;
  const uint64_t many =
      std::min({input.rows(), gate.RowsAtATime(input.rows()), up.RowsAtATime(input.rows())});
  constexpr uint64_t kStride = kPair * kPanelOutputs;
  ForPanels(gate.w().panels(), macs, [&](Range panels) {
    const auto both = std::make_unique_for_overwrite<float[]>(2 * many * kStride);
    const Outputs ups{both.get(), kStride};
    const Outputs apart{both.get() + many * kStride, kStride};
    ForPairs(input.rows(), many, panels, [&](Range part, Range pair) {
      const Range columns = gate.Columns(pair);
      const Outputs gates = to.codes != nullptr ? apart : to.floats.From(part.first, columns.first);
      gate.Compute(input.x(), part, pair, gates);
      up.Compute(input.x(), part, pair, ups);
      for (uint64_t row = 0; row < part.size(); ++row) {
        ActiveKernels().gate(activation, gates.From(row, 0).data, ups.From(row, 0).data,
                             columns.size());
      }
      if (to.codes != nullptr) {
        ActiveKernels().quantize({apart.data, kStride}, *to.codes, part,
                                 to.codes->BlocksOf(columns));
      }
    });
  });
}

}  // namespace tandem

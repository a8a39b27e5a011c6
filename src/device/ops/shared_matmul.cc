#include "device/ops/shared_matmul.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/strings.h"
#include "device/ops/broadcast.h"
#include "device/parallel.h"
#include "kernels/kernels.h"

namespace tandem {
namespace {

const Kernels& ActiveKernels() {
  static const Kernels& kernels = KernelsFor(ActiveIsa());
  return kernels;
}

bool IsQuantized(const PackedMatrix& w) {
  return w.layout() == Layout::kU4 || w.layout() == Layout::kU8;
}

ov::Shape BroadcastShape(const ov::Node& op, const ov::Shape& a, const ov::Shape& b) {
  ov::PartialShape both = a;
  if (!ov::PartialShape::broadcast_merge_into(both, b, ov::op::AutoBroadcastType::NUMPY)) {
    throw Error(ErrorCode::kInvalidArgument,
                Concat(op.get_friendly_name(), ": ", a, " and ", b, " do not broadcast"));
  }
  return both.to_shape();
}

// One of the products while it is computed: y [rows][n] = x * w + addends.
struct Product {
  const PackedMatrix* w = nullptr;
  const QuantizedRows* codes = nullptr;  // null: x in f32
  ov::Shape shape;                       // of x * w
  ov::Shape result;                      // with the addends, over which it may repeat
  Addend start;                          // that of the addends with which the sums start
  std::vector<BroadcastRows> addends;    // the others: added as panels are made
  float* y = nullptr;
  std::unique_ptr<float[]> apart;  // y, unless it is an output of the operator

  bool repeats() const { return result != shape; }

  void AddTo(const BroadcastRows& addend) {
    const auto stride = addend.row_stride();
    if (!start.exist() && stride && addend.step() == 1) {
      start = {addend.Row(0), *stride};
    } else {
      addends.push_back(addend);
    }
  }

  void AllocateApart() {
    apart = std::make_unique_for_overwrite<float[]>(ov::shape_size(shape));
    y = apart.get();
  }

  // The outputs of some rows and panels, which begin at `to`.
  void Compute(const float* x, Range rows, Range panels, Outputs to) const {
    const Range columns = Columns(panels);
    const Addend from = start.From(rows.first, columns.first);
    if (codes != nullptr) {
      ActiveKernels().matmul_int8(*w, *codes, rows, from, to, panels);
    } else {
      ActiveKernels().matmul(*w, x + rows.first * w->k(), rows.size(), from, to, panels);
    }
    for (const BroadcastRows& addend : addends) {
      for (uint64_t row = rows.first; row < rows.last; ++row) {
        Add(addend, row, columns, to.From(row - rows.first, 0).data);
      }
    }
  }

  // Where they are in y.
  Outputs Place(Range rows, Range panels) const {
    return Outputs{y, w->n()}.From(rows.first, panels.first * kPanelOutputs);
  }

  Range Columns(Range panels) const {
    return {panels.first * kPanelOutputs, std::min(panels.last * kPanelOutputs, w->n())};
  }

  // to[0 ...) += the columns of row `row` of the addend.
  static void Add(const BroadcastRows& addend, uint64_t row, Range columns, float* to) {
    const float* from = addend.Row(row);
    if (addend.step() == 0) {
      for (uint64_t i = 0; i < columns.size(); ++i) to[i] += *from;
    } else {
      ActiveKernels().add(from + columns.first, columns.size(), to);
    }
  }
};

// The codes of x for all products with a quantized weight.
std::vector<std::unique_ptr<QuantizedRows>> Quantize(const float* x, uint64_t rows,
                                                     std::vector<Product>& products) {
  std::vector<std::unique_ptr<QuantizedRows>> all;
  for (size_t i = 0; i < products.size(); ++i) {
    Product& product = products[i];
    if (!IsQuantized(*product.w)) continue;
    const Product* before = i > 0 ? &products[i - 1] : nullptr;
    if (before != nullptr && before->codes != nullptr && ShareRows(*before->w, *product.w)) {
      product.codes = before->codes;
      continue;
    }
    QuantizedRows& codes = *all.emplace_back(std::make_unique<QuantizedRows>(*product.w, rows));
    product.codes = &codes;
    ParallelRanges(
        rows, CeilDivide(kSerialElements, product.w->k()),
        [&](uint64_t first, uint64_t last) { ActiveKernels().quantize(x, codes, first, last); });
  }
  return all;
}

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

// The rows of a product to compute at a time. Those in f32 share the work of dequantizing a panel.
uint64_t RowsAtATime(const Product& product, uint64_t rows) {
  return product.codes == nullptr ? rows
                                  : std::min(rows, ActiveKernels().RowsAtATime(product.w->k()));
}

// Calls body(rows, pair) for all rows, some at a time, and pairs of panels.
template <typename Body>
void ForPairs(uint64_t rows, uint64_t many, Range panels, const Body& body) {
  for (uint64_t row = 0; row < rows; row += many) {
    const Range part{row, std::min(rows, row + many)};
    for (uint64_t panel = panels.first; panel < panels.last; panel += kPair) {
      body(part, Range{panel, std::min(panels.last, panel + kPair)});
    }
  }
}

// All panels of all products, counted through.
void ComputeAll(const float* x, uint64_t rows, const std::vector<Product>& products) {
  uint64_t panels = 0;
  for (const Product& product : products) panels += product.w->panels();
  const uint64_t macs = rows * products.front().w->k() * kPanelOutputs;
  ForPanels(panels, macs, [&](Range range) {
    uint64_t base = 0;
    for (const Product& product : products) {
      const uint64_t end = base + product.w->panels();
      const uint64_t from = std::max(range.first, base);
      const uint64_t to = std::min(range.last, end);
      if (from < to) {
        ForPairs(rows, RowsAtATime(product, rows), {from - base, to - base},
                 [&](Range part, Range pair) {
                   product.Compute(x, part, pair, product.Place(part, pair));
                 });
      }
      base = end;
    }
  });
}

std::optional<Activation> ActivationOf(std::string_view gate) {
  if (gate == "silu") return Activation::kSilu;
  if (gate == "gelu") return Activation::kGelu;
  if (gate == "gelu_tanh") return Activation::kGeluTanh;
  return std::nullopt;
}

// Pair by pair: what both products have made is still in the cache when it is gated. Only the first
// one has a y.
void ComputeGated(const float* x, uint64_t rows, Activation activation, const Product& gate,
                  const Product& up) {
  const uint64_t macs = 2 * rows * gate.w->k() * kPanelOutputs;
  const uint64_t many = std::min(RowsAtATime(gate, rows), RowsAtATime(up, rows));
  constexpr uint64_t kStride = kPair * kPanelOutputs;
  ForPanels(gate.w->panels(), macs, [&](Range panels) {
    const auto ups = std::make_unique_for_overwrite<float[]>(many * kStride);
    ForPairs(rows, many, panels, [&](Range part, Range pair) {
      const Outputs gates = gate.Place(part, pair);
      gate.Compute(x, part, pair, gates);
      up.Compute(x, part, pair, {ups.get(), kStride});
      const uint64_t columns = gate.Columns(pair).size();
      for (uint64_t row = 0; row < part.size(); ++row) {
        ActiveKernels().gate(activation, gates.From(row, 0).data, ups.get() + row * kStride,
                             columns);
      }
    });
  });
}

}  // namespace

SharedMatMul::SharedMatMul(const ov::OutputVector& inputs, int64_t argument, int64_t n, int64_t k,
                           std::vector<int64_t> more_n, bool int8, MatMulEpilogue epilogue)
    : SharedOp(inputs, argument, n, k),
      more_n_(std::move(more_n)),
      int8_(int8),
      epilogue_(std::move(epilogue)) {
  constructor_validate_and_infer_types();
}

bool SharedMatMul::visit_attributes(ov::AttributeVisitor& visitor) {
  visitor.on_attribute("more_n", more_n_);
  visitor.on_attribute("int8", int8_);
  visitor.on_attribute("addends", epilogue_.addends);
  visitor.on_attribute("gate", epilogue_.gate);
  return SharedOp::visit_attributes(visitor);
}

void SharedMatMul::validate_and_infer_types() {
  const auto products = static_cast<int64_t>(more_n_.size()) + 1;
  NODE_VALIDATION_CHECK(this, get_input_size() == epilogue_.addends.size() + 2, "expected x, ",
                        epilogue_.addends.size(), " addends and slots, found ", get_input_size(),
                        " inputs");
  ValidateSlots(products);
  NODE_VALIDATION_CHECK(this, get_input_element_type(0) == ov::element::f32,
                        "expected x of f32, found ", get_input_element_type(0));
  const ov::PartialShape& x = get_input_partial_shape(0);
  NODE_VALIDATION_CHECK(
      this, x.rank().is_static() && x.size() > 0 && x[x.size() - 1].compatible(ov::Dimension(k_)),
      "expected x [..., ", k_, "], found ", x);
  std::vector<ov::PartialShape> shapes(static_cast<size_t>(products), x);
  for (size_t i = 0; i < shapes.size(); ++i) {
    ov::PartialShape& shape = shapes[i];
    shape[shape.size() - 1] = i == 0 ? n_ : more_n_[i - 1];
  }
  for (size_t i = 0; i < epilogue_.addends.size(); ++i) {
    const int64_t product = epilogue_.addends[i];
    NODE_VALIDATION_CHECK(this, product >= 0 && product < products, "addend to product ", product);
    ov::PartialShape& shape = shapes[static_cast<size_t>(product)];
    const ov::PartialShape& addend = get_input_partial_shape(i + 1);
    NODE_VALIDATION_CHECK(
        this,
        get_input_element_type(i + 1) == ov::element::f32 && addend.rank().is_static() &&
            ov::PartialShape::broadcast_merge_into(shape, addend, ov::op::AutoBroadcastType::NUMPY),
        "expected an f32 addend that fits ", shape, ", found ", addend);
  }
  const bool is_gated = !epilogue_.gate.empty();
  if (is_gated) {
    NODE_VALIDATION_CHECK(this, ActivationOf(epilogue_.gate), "unknown gate '", epilogue_.gate,
                          "'");
    NODE_VALIDATION_CHECK(this, products == 2 && more_n_[0] == n_ && shapes[0] == shapes[1],
                          "a gate takes two products of one shape");
    shapes.pop_back();
  }
  set_output_size(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) set_output_type(i, ov::element::f32, shapes[i]);
}

std::shared_ptr<ov::Node> SharedMatMul::clone_with_new_inputs(
    const ov::OutputVector& inputs) const {
  return std::make_shared<SharedMatMul>(inputs, argument_, n_, k_, more_n_, int8_, epilogue_);
}

bool SharedMatMul::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
  const ov::Tensor& x = inputs.front();
  const auto* x_data = x.data<const float>();
  const uint64_t rows = x.get_size() / static_cast<uint64_t>(k_);
  const bool is_gated = !epilogue_.gate.empty();

  std::vector<Product> products(more_n_.size() + 1);
  for (size_t i = 0; i < products.size(); ++i) {
    const int64_t n = i == 0 ? n_ : more_n_[i - 1];
    const WeightForm& form = Weight(inputs.back(), static_cast<int64_t>(i), n);
    if (!form.packed) {
      throw Error(ErrorCode::kInternal, get_friendly_name() + ": weight not packed");
    }
    products[i].w = &*form.packed;
    products[i].shape = x.get_shape();
    products[i].shape.back() = form.packed->n();
    products[i].result = products[i].shape;
  }
  for (size_t i = 0; i < epilogue_.addends.size(); ++i) {
    Product& product = products[static_cast<size_t>(epilogue_.addends[i])];
    product.result = BroadcastShape(*this, product.result, inputs[i + 1].get_shape());
  }
  for (size_t i = 0; i < epilogue_.addends.size(); ++i) {
    Product& product = products[static_cast<size_t>(epilogue_.addends[i])];
    if (!product.repeats()) product.AddTo(BroadcastRows(*this, inputs[i + 1], product.shape));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].set_shape(products[i].result);
    if (products[i].repeats()) {
      products[i].AllocateApart();
    } else {
      products[i].y = outputs[i].data<float>();
    }
  }

  std::vector<std::unique_ptr<QuantizedRows>> codes;
  if (int8_) codes = Quantize(x_data, rows, products);
  if (is_gated) {
    ComputeGated(x_data, rows, *ActivationOf(epilogue_.gate), products[0], products[1]);
  } else {
    ComputeAll(x_data, rows, products);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (products[i].repeats()) AddRepeated(i, products[i].y, products[i].shape, outputs[i], inputs);
  }
  return true;
}

uint64_t SharedMatMul::WeightBytes(const ov::Tensor& slots) const {
  uint64_t bytes = Weight(slots, 0, n_).bytes();
  for (size_t i = 0; i < more_n_.size(); ++i) {
    bytes += Weight(slots, static_cast<int64_t>(i) + 1, more_n_[i]).bytes();
  }
  return bytes;
}

void SharedMatMul::AddRepeated(size_t product, const float* y, const ov::Shape& shape,
                               ov::Tensor& output, const ov::TensorVector& inputs) const {
  const ov::Tensor computed(ov::element::f32, shape, const_cast<float*>(y));
  const ov::Shape& result = output.get_shape();
  std::vector<BroadcastRows> terms{BroadcastRows(*this, computed, result)};
  for (size_t i = 0; i < epilogue_.addends.size(); ++i) {
    if (static_cast<size_t>(epilogue_.addends[i]) != product) continue;
    terms.emplace_back(*this, inputs[i + 1], result);
  }
  const uint64_t n = result.back();
  auto* out = output.data<float>();
  std::fill_n(out, output.get_size(), 0.0F);
  for (uint64_t row = 0; row < output.get_size() / n; ++row, out += n) {
    for (const BroadcastRows& term : terms) Product::Add(term, row, {0, n}, out);
  }
}

}  // namespace tandem

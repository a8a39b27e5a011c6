#include "graph/activation_pattern.h"

#include <array>
#include <cmath>
#include <vector>

namespace tandem {
namespace {

// Coefficients of 1, x, x^2 and x^3.
using Polynomial = std::array<double, 4>;

constexpr Polynomial kX{0, 1, 0, 0};
constexpr Polynomial kErfArgument{0, 0.7071067811865476, 0, 0};
constexpr Polynomial kTanhArgument{0, 0.7978845608028654, 0, 0.7978845608028654 * 0.044715};

// Exporters write the constants with as few as four digits.
bool AreNear(double a, double b) {
  return std::abs(a - b) <= 1e-4 * std::abs(b);
}

bool AreNear(const Polynomial& a, const Polynomial& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!AreNear(a[i], b[i])) return false;
  }
  return true;
}

std::optional<Polynomial> Times(const Polynomial& a, const Polynomial& b) {
  Polynomial product{};
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) {
      const double part = a[i] * b[j];
      if (part == 0) continue;
      if (i + j >= product.size()) return std::nullopt;
      product[i + j] += part;
    }
  }
  return product;
}

// Collects the nodes that it looks through.
class ActivationMatcher {
 public:
  explicit ActivationMatcher(const Walker& walker) : walker_(walker) {}

  std::optional<ActivationUse> Match(ValueId y) {
    if (auto use = FromOperator(y)) return use;
    if (!Factor(y) || factors_.size() != 2) return std::nullopt;
    for (size_t side : {0, 1}) {
      nodes_.resize(outer_nodes_);
      if (const std::string name = NameOf(factors_[1 - side], factors_[side]); !name.empty()) {
        return ActivationUse{factors_[side], name, {nodes_.begin(), nodes_.end()}};
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<ActivationUse> FromOperator(ValueId y) const {
    const NodeId id = walker_.index().Producer(y);
    if (id == GraphIndex::kNoNode) return std::nullopt;
    const Node& node = walker_.graph().nodes[id];
    if (node.inputs.size() != 1) return std::nullopt;  // FastGelu may have a bias
    const auto use = [&](const char* name) {
      return ActivationUse{node.inputs.front(), name, {id}};
    };
    if (IsOp(node, "FastGelu", kMicrosoftDomain)) return use("gelu_tanh");
    if (IsOp(node, "Gelu", kMicrosoftDomain)) return use("gelu");
    if (!IsOp(node, "Gelu")) return std::nullopt;
    const Attribute* approximate = FindAttribute(node, "approximate");
    const auto* name =
        approximate == nullptr ? nullptr : std::get_if<std::string>(&approximate->value);
    const bool is_tanh = name != nullptr && *name == "tanh";
    return use(is_tanh ? "gelu_tanh" : "gelu");
  }

  const Node* Made(ValueId value, const char* op_type) {
    const Node* node = walker_.Made(value, op_type);
    if (node != nullptr) nodes_.push_back(walker_.index().Producer(value));
    return node;
  }

  const Node* MadeByConstant(ValueId quotient) {
    const Node* div = walker_.Made(quotient, "Div");
    const bool fits = div != nullptr && ConstantFloat(walker_.graph(), div->inputs[1]);
    return fits ? Made(quotient, "Div") : nullptr;
  }

  // Splits a product into factor_ and factors_, down to what is no product.
  bool Factor(ValueId product) {
    const auto constant = ConstantFloat(walker_.graph(), product);
    if (constant) {
      factor_ *= *constant;
    } else if (const Node* mul = Made(product, "Mul")) {
      if (!Factor(mul->inputs[0]) || !Factor(mul->inputs[1])) return false;
    } else if (const Node* div = MadeByConstant(product)) {
      factor_ /= *ConstantFloat(walker_.graph(), div->inputs[1]);
      if (!Factor(div->inputs[0])) return false;
    } else {
      factors_.push_back(product);
    }
    outer_nodes_ = nodes_.size();
    return factors_.size() <= 2;
  }

  // The function whose product with x and factor_ makes the activation; empty: none.
  std::string NameOf(ValueId function, ValueId x) {
    if (const Node* sigmoid = Made(function, "Sigmoid")) {
      return factor_ == 1 && IsPolynomial(sigmoid->inputs[0], x, kX) ? "silu" : "";
    }
    const Node* add = factor_ == 0.5 ? Made(function, "Add") : nullptr;
    if (add == nullptr) return "";
    for (size_t side : {0, 1}) {
      if (ConstantFloat(walker_.graph(), add->inputs[side]) != 1.0F) continue;
      const ValueId rest = add->inputs[1 - side];
      if (const Node* erf = Made(rest, "Erf")) {
        return IsPolynomial(erf->inputs[0], x, kErfArgument) ? "gelu" : "";
      }
      if (const Node* tanh = Made(rest, "Tanh")) {
        return IsPolynomial(tanh->inputs[0], x, kTanhArgument) ? "gelu_tanh" : "";
      }
    }
    return "";
  }

  bool IsPolynomial(ValueId value, ValueId x, const Polynomial& expected) {
    const auto polynomial = PolynomialOf(value, x, kDepth);
    return polynomial && AreNear(*polynomial, expected);
  }

  // `value` as a polynomial of x, over at most `depth` nodes in a row.
  std::optional<Polynomial> PolynomialOf(ValueId value, ValueId x, int depth) {
    if (value == x) return kX;
    if (const auto constant = ConstantFloat(walker_.graph(), value)) {
      return Polynomial{*constant, 0, 0, 0};
    }
    if (depth == 0) return std::nullopt;
    for (const char* op : {"Add", "Mul", "Div", "Pow"}) {
      const Node* node = Made(value, op);
      if (node == nullptr) continue;
      const auto a = PolynomialOf(node->inputs[0], x, depth - 1);
      const auto b = PolynomialOf(node->inputs[1], x, depth - 1);
      if (!a || !b) return std::nullopt;
      return Combine(op, *a, *b);
    }
    return std::nullopt;
  }

  static std::optional<Polynomial> Combine(std::string_view op, const Polynomial& a,
                                           const Polynomial& b) {
    if (op == "Mul") return Times(a, b);
    if (op == "Add") {
      Polynomial sum = a;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
      return sum;
    }
    const bool is_constant = b[1] == 0 && b[2] == 0 && b[3] == 0;
    if (!is_constant || b[0] == 0) return std::nullopt;
    if (op == "Div") return Times(a, {1 / b[0], 0, 0, 0});
    if (b[0] == 2) return Times(a, a);
    const auto square = b[0] == 3 ? Times(a, a) : std::nullopt;
    return square ? Times(*square, a) : std::nullopt;
  }

  static constexpr int kDepth = 6;

  const Walker& walker_;
  std::vector<NodeId> nodes_;
  size_t outer_nodes_ = 0;  // of nodes_, those of the product itself
  double factor_ = 1;
  std::vector<ValueId> factors_;
};

}  // namespace

std::optional<ActivationUse> MatchActivation(const Walker& walker, ValueId y) {
  return y == kNoValue ? std::nullopt : ActivationMatcher(walker).Match(y);
}

}  // namespace tandem

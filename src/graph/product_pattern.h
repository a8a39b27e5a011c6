#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/activation_pattern.h"
#include "graph/matrix_pattern.h"
#include "graph/norm_pattern.h"
#include "graph/walker.h"

namespace tandem {

// A product with a weight matrix and what is added to it.
struct Product {
  MatrixUse use;
  std::vector<ValueId> addends;
  ValueId result = kNoValue;  // of the last addition
};

// What one SharedMatMul computes (device/ops/shared_matmul.h), in place of several nodes.
struct ProductGroup {
  // Of one activation; behind a gate, a third one may be of what is gated.
  std::vector<Product> products;
  std::string gate;  // "" or an activation's name: the only result is the last
  ValueId gated = kNoValue;
  std::optional<RmsNormUse> norm;  // that makes the activation, for this group only

  std::vector<ValueId> Results() const;
};

// Finds the products of a graph that can be computed together, each by the node after which
// nothing is missing:
//
//   products of one activation                          the first of them
//   Add(product, other)                                 the Add; and so on with more
//   Mul(activation(gate), up), both products            the Mul
//   a product of that, and what is added to it          the product, or the Add
//
// and the RMS norm that makes their activation. A product is added to or gated only if nobody else
// reads it; so is a norm, or what is gated, taken in. MatMulNBits and Gemm bring a bias of their
// own.
class ProductPatterns {
 public:
  ProductPatterns(const Walker& walker, const MatrixPatterns& matrices);

  // The group to compute in place of a node; null for nodes that are not the last of one.
  const ProductGroup* Find(const Node& node) const;

  // Whether what a node makes is made with the group of another.
  bool IsPart(const Node& node) const { return parts_.contains(IdOf(node)); }

 private:
  NodeId IdOf(const Node& node) const;
  void AddTo(NodeId add);
  void Gate(NodeId mul);
  bool IsReadOnlyBy(ValueId value, const std::set<NodeId>& readers) const;
  // The product that `activation`, whose result only `mul` reads, reads alone.
  NodeId GateOf(const ActivationUse& activation, NodeId mul) const;
  void JoinByActivation();
  void TakeGated();
  void TakeNorms();
  // The product that `value` is, if nobody but `readers` reads it.
  NodeId ProductOf(ValueId value, const std::set<NodeId>& readers) const;

  const Walker& walker_;
  std::map<NodeId, ProductGroup> groups_;  // by last node
  std::set<NodeId> parts_;
};

}  // namespace tandem

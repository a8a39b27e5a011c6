#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/data_type.h"
#include "weights/weight.h"

namespace tandem {

// A model's graph as plain data: what ONNX (https://onnx.ai/onnx/repo-docs/IR.html) says, with
// values by number instead of by name. It is made from ONNX Runtime's graph, cut into partitions
// and functions, and written out as ONNX again. Bytes of weights are referred to, never copied.

struct Graph;

using ValueId = uint32_t;
using NodeId = uint32_t;  // position in Graph::nodes

// An optional input or output that is left out.
constexpr ValueId kNoValue = UINT32_MAX;

struct Value {
  std::string name;
  bool is_tensor = true;  // false: a sequence, map or optional; type and shape mean nothing then
  DataType type = DataType::kUndefined;
  std::optional<Shape> shape;            // none: unknown rank; -1: unknown dimension
  std::shared_ptr<const Weight> weight;  // a constant; null: computed or fed
};

// An attribute that Tandem cannot write out again (a type that it does not know).
struct Unreadable {};

struct Attribute {
  std::string name;
  std::variant<Unreadable, int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
               std::vector<std::string>, std::shared_ptr<const Weight>,
               std::shared_ptr<const Graph>>
      value;
};

struct Node {
  std::string name;
  std::string op_type;
  std::string domain;  // "" is ai.onnx
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<Attribute> attributes;
  // Values of this graph that the bodies among the attributes (If, Loop, Scan) refer to by name.
  std::vector<ValueId> captures;
  // Of SharedMatMul and SharedGather: positions in Graph::matrices, one after the other.
  std::vector<size_t> matrices;
};

// A weight matrix that a SharedMatMul multiplies with, or whose rows a SharedGather reads, and how
// to find its numbers in the constants of the graph; see MatrixSource (kernels/matrix_source.h) for
// the meaning of the fields.
struct Matrix {
  int64_t n = 0;
  int64_t k = 0;
  bool outputs_first = false;
  std::shared_ptr<const Weight> codes;
  DataType code_type = DataType::kUndefined;  // MatMulNBits keeps u4 codes in a u8 tensor
  int64_t row_elements = 0;
  // Null: the codes are the values. One scale covers block_n x block_k codes.
  std::shared_ptr<const Weight> scales;
  int64_t block_n = 1;
  int64_t block_k = 1;
  // Null: default_zero_point for all.
  std::shared_ptr<const Weight> zero_points;
  DataType zero_point_type = DataType::kUndefined;
  int64_t zero_point_row_elements = 0;
  float default_zero_point = 0;
};

struct Opset {
  std::string domain;
  int64_t version = 0;
};

struct Graph {
  std::string name;
  int64_t ir_version = 10;
  std::vector<Opset> opsets;
  std::vector<Value> values;
  std::vector<Node> nodes;  // each after those whose outputs it reads
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<Matrix> matrices;
  size_t caches = 0;  // that a function's Attention nodes use (graph/kv_caches.h)

  const Value& operator[](ValueId value) const { return values[value]; }

  ValueId AddValue(Value value) {
    values.push_back(std::move(value));
    return static_cast<ValueId>(values.size() - 1);
  }
};

// The domain of Tandem's own operators.
constexpr std::string_view kTandemDomain = "tandem";
constexpr std::string_view kMicrosoftDomain = "com.microsoft";

inline bool IsOp(const Node& node, std::string_view op_type, std::string_view domain = "") {
  return node.op_type == op_type && node.domain == domain;
}

const Attribute* FindAttribute(const Node& node, std::string_view name);

// The attribute's value, or `fallback` when it is absent or of another type.
int64_t IntAttribute(const Node& node, std::string_view name, int64_t fallback);
float FloatAttribute(const Node& node, std::string_view name, float fallback);
std::vector<int64_t> IntsAttribute(const Node& node, std::string_view name);

// The elements of a constant of i32 or i64; none for all else.
std::optional<std::vector<int64_t>> ConstantInts(const Graph& graph, ValueId value);

// The only element of a constant of f32, f16 or bf16; none for all else.
std::optional<float> ConstantFloat(const Graph& graph, ValueId value);

// The bodies of If, Loop and Scan.
std::vector<std::shared_ptr<const Graph>> Bodies(const Node& node);

// The input at `index`, or kNoValue when the node has fewer or leaves it out.
inline ValueId Input(const Node& node, size_t index) {
  return index < node.inputs.size() ? node.inputs[index] : kNoValue;
}

// Who makes and who reads each value of a graph. Borrows nothing: valid until nodes change.
class GraphIndex {
 public:
  static constexpr NodeId kNoNode = UINT32_MAX;

  explicit GraphIndex(const Graph& graph);

  // The node that makes `value`; kNoNode for inputs and constants.
  NodeId Producer(ValueId value) const { return producers_[value]; }
  // The nodes that read it, each once, captures included.
  const std::vector<NodeId>& Consumers(ValueId value) const { return consumers_[value]; }
  bool IsGraphOutput(ValueId value) const { return is_output_[value]; }

 private:
  std::vector<NodeId> producers_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<bool> is_output_;
};

// The part of `graph` that consists of `nodes` (in ascending order). Its inputs are the values that
// it reads and does not make, constants aside, in the order of first use; its outputs are those of
// its values that others read or that the graph returns, in the order in which they are made.
// Values keep their names.
Graph ExtractNodes(const Graph& graph, const GraphIndex& index, const std::vector<NodeId>& nodes);

}  // namespace tandem

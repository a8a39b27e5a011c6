#include "graph/signature.h"

namespace tandem {
namespace {

void AddAttribute(DigestBuilder& digest, const Attribute& attribute) {
  digest.Add(attribute.name).Add(static_cast<int64_t>(attribute.value.index()));
  struct {
    DigestBuilder& digest;
    void operator()(const Unreadable&) {}
    void operator()(int64_t value) { digest.Add(value); }
    void operator()(float value) { digest.Add(std::as_bytes(std::span(&value, 1))); }
    void operator()(const std::string& value) { digest.Add(value); }
    void operator()(const std::vector<int64_t>& values) { digest.Add(AsBytes(values)); }
    void operator()(const std::vector<float>& values) { digest.Add(AsBytes(values)); }
    void operator()(const std::vector<std::string>& values) {
      for (const std::string& value : values) digest.Add(value);
    }
    void operator()(const std::shared_ptr<const Weight>& value) { digest.Add(value->bytes); }
    void operator()(const std::shared_ptr<const Graph>&) {}
  } visitor{digest};
  std::visit(visitor, attribute.value);
}

void AddValue(DigestBuilder& digest, const Graph& graph, ValueId id) {
  digest.Add(int64_t{id != kNoValue});
  if (id == kNoValue) return;
  const Value& value = graph[id];
  digest.Add(static_cast<int64_t>(value.type));
  digest.Add(value.shape ? static_cast<int64_t>(value.shape->size()) : -1);
  if (value.shape) digest.Add(AsBytes(*value.shape));
  digest.Add(int64_t{value.weight != nullptr});
  if (value.weight && !IsFloat(value.type)) digest.Add(value.weight->bytes);
}

}  // namespace

Digest NodeSignature(const Graph& graph, const Node& node) {
  DigestBuilder digest;
  digest.Add(node.domain).Add(node.op_type);
  for (const Attribute& attribute : node.attributes) AddAttribute(digest, attribute);
  for (size_t matrix : node.matrices) {
    digest.Add(graph.matrices[matrix].n).Add(graph.matrices[matrix].k);
  }
  for (ValueId value : node.inputs) AddValue(digest, graph, value);
  for (ValueId value : node.outputs) AddValue(digest, graph, value);
  return digest.Finish();
}

}  // namespace tandem

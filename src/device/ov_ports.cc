#include "device/ov_ports.h"

#include <unordered_map>

#include "base/error.h"
#include "base/strings.h"
#include "device/ov_types.h"

namespace tandem {
namespace {

Port PortOf(const std::string& name, const ov::Output<const ov::Node>& port) {
  Shape shape;
  for (const ov::Dimension& dimension : port.get_partial_shape()) {
    shape.push_back(dimension.is_static() ? dimension.get_length() : -1);
  }
  return {name, FromOv(port.get_element_type()), std::move(shape)};
}

}  // namespace

OvInputs::OvInputs(const std::vector<std::string>& names,
                   const std::vector<ov::Output<const ov::Node>>& found) {
  std::unordered_map<std::string, size_t> by_name;
  for (size_t i = 0; i < found.size(); ++i) by_name[found[i].get_node()->get_friendly_name()] = i;
  for (const std::string& name : names) {
    const auto place = by_name.find(name);
    const bool is_used = place != by_name.end();
    places.push_back(is_used ? place->second : kUnused);
    ports.push_back(is_used ? PortOf(name, found[place->second])
                            : Port{name, DataType::kUndefined, {}});
  }
}

Tensor OvInputs::Fitted(size_t input, Tensor tensor) const {
  const Port& port = ports[input];
  if (port.shape.empty() && ElementCount(tensor.shape) == 1) tensor.shape.clear();
  bool fits = port.type == tensor.type && port.shape.size() == tensor.shape.size();
  for (size_t i = 0; fits && i < port.shape.size(); ++i) {
    fits = port.shape[i] < 0 || port.shape[i] == tensor.shape[i];
  }
  if (fits) return tensor;
  throw Error(ErrorCode::kInvalidArgument,
              Concat("input '", port.name, "': found ", Name(tensor.type), ShapeText(tensor.shape),
                     ", expected ", Name(port.type), ShapeText(port.shape)));
}

std::vector<Port> OvOutputs(const std::vector<std::string>& names,
                            const std::vector<ov::Output<const ov::Node>>& found) {
  if (found.size() != names.size()) {
    throw Error(ErrorCode::kInternal,
                Concat("OpenVINO made ", found.size(), " outputs, expected ", names.size()));
  }
  std::vector<Port> ports;
  for (size_t i = 0; i < names.size(); ++i) ports.push_back(PortOf(names[i], found[i]));
  return ports;
}

}  // namespace tandem

#pragma once

#include "device/ov_device.h"
#include "graph/topology.h"

namespace tandem {

// One for all tests of a program.
inline OpenVino& TheOpenVino() {
  static auto* const openvino = new OpenVino();
  return *openvino;
}

// As Tandem runs by default.
inline const Properties kExact{{"INFERENCE_PRECISION_HINT", "f32"}};

// What compiles to `graph`, all of whose constants are small.
inline FunctionSource SourceOf(const Graph& graph) {
  FunctionSource source;
  Topology topology = WriteTopology(graph, DefaultPlaces(graph));
  source.topology = std::move(topology.model);
  source.topology_inputs = std::move(topology.inputs);
  for (ValueId value : graph.inputs) source.inputs.push_back(graph[value].name);
  for (ValueId value : graph.outputs) source.outputs.push_back(graph[value].name);
  if (!graph.matrices.empty()) source.inputs.emplace_back(kSlotsInput);
  return source;
}

}  // namespace tandem

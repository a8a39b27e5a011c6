#pragma once

#include <nlohmann/json_fwd.hpp>

#include "graph/graph.h"

namespace tandem {

// A function of the host (run/host_function.h) as a member of a program in a bundle: a few nodes
// over integers, whose attributes are integers.
nlohmann::json HostGraphToJson(const Graph& graph);

// Throws Error(kInvalidModel), or what the JSON library throws, when a host function cannot be made
// of it.
Graph HostGraphFromJson(const nlohmann::json& json);

}  // namespace tandem

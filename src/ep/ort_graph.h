#pragma once

#include <filesystem>
#include <vector>

#include "ep/ort_api.h"
#include "graph/graph.h"
#include "weights/weight_store.h"

namespace tandem {

// The file of the graph's model; empty for a model from memory.
std::filesystem::path ModelFile(const OrtFunctions& ort, const OrtGraph* graph);

// `ort_graph` as a graph of Tandem's; its nodes are in the order of NodesOf. Constant initializers
// in files are mapped by `store`; others borrow ONNX Runtime's memory, as long as the OrtGraph
// lives. `data_folder`, if not empty, is where external data is looked for instead of the model's
// folder (session.model_external_initializers_file_folder_path).
//
// Throws Error(kInvalidModel), Error(kNotFound) or Error(kIo), naming weight and file, when the
// data of an initializer is not there or not what the model says.
Graph ImportGraph(const OrtFunctions& ort, const OrtGraph* ort_graph, WeightStore& store,
                  const std::filesystem::path& data_folder);

// The nodes of a graph, each after those whose outputs it reads. They live as long as the graph.
std::vector<const OrtNode*> NodesOf(const OrtFunctions& ort, const OrtGraph* graph);

// ONNX Runtime's own numbers of nodes, ascending.
using NodeIds = std::vector<size_t>;
NodeIds IdsOf(const OrtFunctions& ort, const std::vector<const OrtNode*>& nodes);

std::string NodeName(const OrtFunctions& ort, const OrtNode* node);
std::string OpType(const OrtFunctions& ort, const OrtNode* node);

// The provider that the node is assigned to; "" while there is none.
std::string ProviderOf(const OrtFunctions& ort, const OrtNode* node);

// The names of a node's inputs or outputs, "" where one is left out.
std::vector<std::string> InputNames(const OrtFunctions& ort, const OrtNode* node);
std::vector<std::string> OutputNames(const OrtFunctions& ort, const OrtNode* node);

// True for the body of an If, Loop or Scan. Before ONNX Runtime 1.24 a body has no parent, and is
// known by having no inputs or reading values of an outer graph.
bool IsBody(const OrtFunctions& ort, const OrtGraph* graph);

}  // namespace tandem

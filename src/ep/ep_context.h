#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "ep/ort_api.h"
#include "run/program.h"
#include "run/runtime.h"

namespace tandem {

// Compiled models: EPContext nodes
// (https://onnxruntime.ai/docs/execution-providers/EP-Context-Design.html), each of which names a
// program in a bundle. The bundle is a file beside the model, or part of the model's first such
// node.

// What a session is asked to write, by ONNX Runtime's configuration entries.
struct ContextSettings {
  bool enabled = false;        // ep.context_enable
  bool embeds = false;         // ep.context_embed_mode
  std::filesystem::path file;  // ep.context_file_path; empty: beside the model
  std::string node_prefix;     // ep.context_node_name_prefix
  bool shares = false;         // ep.share_ep_contexts: the bundle is that of a group
  bool stops_sharing = false;  // ep.stop_share_ep_contexts: this session is the group's last
  std::string bundle_file;     // option: the bundle of all who name it
};

ContextSettings ParseContextSettings(const std::map<std::string, std::string>& entries);

// What the programs of a bundle need, for ONNX Runtime to keep in the model; and whether that is
// here.
std::string CompatibilityInfo(const std::string& device);
OrtCompiledModelCompatibility CheckCompatibility(const std::string& info);

// Whether a node is an EPContext that Tandem wrote.
bool IsContextNode(const OrtFunctions& ort, const OrtNode* node);

// Where the bundle of a model is looked for, in this order; and the model itself, if it is a file.
struct BundlePlaces {
  std::vector<std::filesystem::path> folders;
  std::filesystem::path model_file;
};

// The programs of EPContext nodes, one for each. Throws Error(kInvalidModel), Error(kNotFound) or
// Error(kUnsupported), naming the node or the bundle.
std::vector<std::shared_ptr<const Program>> LoadContexts(const OrtFunctions& ort,
                                                         const std::vector<const OrtNode*>& nodes,
                                                         Runtime& runtime, Device& device,
                                                         const Properties& properties,
                                                         const BundlePlaces& places, Verify verify);

// Throws Error(kUnsupported) when a model with this many bytes of weights cannot be embedded.
void CheckEmbeddable(uint64_t bytes);

// Writes programs into a bundle and makes a node for each; the caller owns the nodes. `model_file`
// may be empty.
std::vector<OrtNode*> WriteContexts(const OrtFunctions& ort,
                                    const std::vector<const OrtNode*>& fused_nodes,
                                    const std::vector<std::shared_ptr<const Program>>& programs,
                                    Runtime& runtime, const std::string& device,
                                    const ContextSettings& settings,
                                    const std::filesystem::path& model_file);

}  // namespace tandem

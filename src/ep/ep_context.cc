#include "ep/ep_context.h"

#include <climits>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/path_guard.h"
#include "base/strings.h"
#include "bundle/bundle_writer.h"
#include "device/ov_device.h"
#include "ep/ep_factory.h"
#include "ep/ort_graph.h"
#include "graph/graph.h"
#include "run/bundled_program.h"

namespace fs = std::filesystem;

namespace tandem {
namespace {

constexpr const char* kOpType = "EPContext";

// The attributes of an EPContext node, by ONNX Runtime's names.
struct Context {
  bool main_context = true;
  bool embed_mode = true;
  std::string ep_cache_context;  // the bundle's file name, or the bundle itself
  std::string partition_name;
};

// Null when the node has no such attribute.
const OrtOpAttr* FindAttribute(const OrtFunctions& ort, const OrtNode* node, const char* name) {
  const OrtOpAttr* attribute = nullptr;
  OrtStatus* missing = ort.api.Node_GetAttributeByName(node, name, &attribute);
  if (missing == nullptr) return attribute;
  ort.api.ReleaseStatus(missing);
  return nullptr;
}

std::string StringAttribute(const OrtFunctions& ort, const OrtNode* node, const char* name) {
  const OrtOpAttr* attribute = FindAttribute(ort, node, name);
  size_t bytes = 0;
  if (attribute == nullptr) return "";
  OrtStatus* too_small = ort.api.ReadOpAttr(attribute, ORT_OP_ATTR_STRING, nullptr, 0, &bytes);
  if (too_small == nullptr) return "";
  ort.api.ReleaseStatus(too_small);
  std::string text(bytes, '\0');
  ThrowIfFailed(ort.api,
                ort.api.ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text.data(), bytes, &bytes));
  return text;
}

bool FlagAttribute(const OrtFunctions& ort, const OrtNode* node, const char* name, bool fallback) {
  const OrtOpAttr* attribute = FindAttribute(ort, node, name);
  if (attribute == nullptr) return fallback;
  int64_t value = 0;
  size_t bytes = sizeof(value);
  ThrowIfFailed(ort.api, ort.api.ReadOpAttr(attribute, ORT_OP_ATTR_INT, &value, bytes, &bytes));
  return value != 0;
}

Context ReadContext(const OrtFunctions& ort, const OrtNode* node) {
  Context context;
  context.main_context = FlagAttribute(ort, node, "main_context", true);
  context.embed_mode = FlagAttribute(ort, node, "embed_mode", true);
  context.ep_cache_context = StringAttribute(ort, node, "ep_cache_context");
  context.partition_name = StringAttribute(ort, node, "partition_name");
  return context;
}

// The bundle in the folder where it is found.
std::shared_ptr<const Bundle> OpenBundle(Runtime& runtime, const BundlePlaces& places,
                                         const std::string& name, const std::string& subject) {
  std::vector<std::string> tried;
  for (const fs::path& folder : places.folders) {
    try {
      return runtime.OpenBundle(ResolveReference(folder, name, places.model_file, subject));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) throw;
      tried.push_back("'" + folder.string() + "'");
    }
  }
  throw Error(
      ErrorCode::kNotFound,
      Concat(subject, ": there is no bundle '", name, "' in ",
             tried.empty() ? "any folder that is known" : Join(tried, " or "),
             "; ep.context_file_path tells where the model lies when ONNX Runtime does not: "
             "for a model from memory, or with "
             "session.model_external_initializers_file_folder_path"));
}

std::shared_ptr<const Bundle> OpenEmbedded(const std::string& bytes, const std::string& subject) {
  const auto copy = std::make_shared<AlignedBuffer>(bytes.size());
  // Tensors begin at a cache line of the data, which begins at one of the file.
  if (!bytes.empty()) std::memcpy(copy->data(), bytes.data(), bytes.size());
  return Bundle::FromMemory("in " + subject, {copy->data(), copy->size()}, copy);
}

OrtNode* MakeNode(const OrtFunctions& ort, const OrtNode* fused, const Context& context,
                  const std::string& name, const std::string& model_file) {
  std::vector<OrtOpAttr*> attributes;
  const auto release = [&](void*) {
    for (OrtOpAttr* attribute : attributes) ort.api.ReleaseOpAttr(attribute);
  };
  const std::unique_ptr<void, decltype(release)> releaser(&attributes, release);
  const auto add = [&](const char* key, const void* data, size_t length, OrtOpAttrType type) {
    OrtOpAttr* attribute = nullptr;
    ThrowIfFailed(ort.api,
                  ort.api.CreateOpAttr(key, data, static_cast<int>(length), type, &attribute));
    attributes.push_back(attribute);
  };
  const auto add_flag = [&](const char* key, bool flag) {
    const int64_t value = flag ? 1 : 0;
    add(key, &value, 1, ORT_OP_ATTR_INT);
  };
  const auto add_text = [&](const char* key, const std::string& text) {
    add(key, text.data(), text.size(), ORT_OP_ATTR_STRING);
  };
  add_flag("main_context", context.main_context);
  add_flag("embed_mode", context.embed_mode);
  add_text("ep_cache_context", context.ep_cache_context);
  add_text("source", kEpName);
  add_text("partition_name", context.partition_name);
  add_text("ep_sdk_version", OpenVino::Version());
  add_text("onnx_model_filename", model_file);

  const std::vector<std::string> inputs = InputNames(ort, fused);
  const std::vector<std::string> outputs = OutputNames(ort, fused);
  const auto pointers = [](const std::vector<std::string>& names) {
    std::vector<const char*> list;
    for (const std::string& text : names) list.push_back(text.c_str());
    return list;
  };
  const auto input_names = pointers(inputs);
  const auto output_names = pointers(outputs);
  OrtNode* node = nullptr;
  ThrowIfFailed(ort.api, ort.api.GetModelEditorApi()->CreateNode(
                             kOpType, std::string(kMicrosoftDomain).c_str(), name.c_str(),
                             input_names.data(), input_names.size(), output_names.data(),
                             output_names.size(), attributes.data(), attributes.size(), &node));
  attributes.clear();  // the node has them now
  return node;
}

// The compiled model that ONNX Runtime is going to write.
fs::path ContextFile(const ContextSettings& settings, const fs::path& model_file) {
  if (!settings.file.empty()) return settings.file;
  if (!model_file.empty()) {
    return model_file.parent_path() / (model_file.stem().string() + "_ctx.onnx");
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      "a model from memory is compiled: set ep.context_file_path, beside which the bundle goes, "
      "or ep.context_embed_mode to 1");
}

// Writes the bundle beside the compiled model and returns its name.
std::string WriteBundle(BundleWriter& writer, Runtime& runtime, const ContextSettings& settings,
                        const fs::path& context_file) {
  const fs::path folder =
      context_file.has_parent_path() ? context_file.parent_path() : fs::path(".");
  std::string name = Concat(context_file.stem().string(), "_", kEpName, ".safetensors");
  const bool is_group = settings.shares || settings.stops_sharing;
  if (!settings.bundle_file.empty()) {
    name = settings.bundle_file;
  } else if (is_group) {
    name = runtime.groups().Join(folder, name, settings.stops_sharing);
  }
  const FolderLock lock(folder);
  const fs::path path = folder / name;
  if ((is_group || !settings.bundle_file.empty()) && fs::exists(path)) {
    writer.AddAll(runtime.OpenBundle(path));
  }
  writer.Write(path);
  return name;
}

}  // namespace

ContextSettings ParseContextSettings(const std::map<std::string, std::string>& entries) {
  const auto text = [&](const char* key) {
    const auto entry = entries.find(key);
    return entry == entries.end() ? std::string() : entry->second;
  };
  const auto flag = [&](const char* key) {
    const std::string value = text(key);
    if (value.empty() || value == "0") return false;
    if (value == "1") return true;
    throw Error(ErrorCode::kInvalidArgument, Concat(key, ": found '", value, "', expected 0 or 1"));
  };
  ContextSettings settings;
  settings.enabled = flag("ep.context_enable");
  settings.embeds = flag("ep.context_embed_mode");
  settings.file = text("ep.context_file_path");
  settings.node_prefix = text("ep.context_node_name_prefix");
  settings.shares = flag("ep.share_ep_contexts");
  settings.stops_sharing = flag("ep.stop_share_ep_contexts");
  if (settings.enabled && settings.embeds && (settings.shares || settings.stops_sharing)) {
    throw Error(ErrorCode::kInvalidArgument,
                "ep.context_embed_mode 1 puts the weights into each model: it excludes "
                "ep.share_ep_contexts");
  }
  return settings;
}

std::string CompatibilityInfo(const std::string& device) {
  return Concat("tandem.format=", kBundleMajor, ".", kBundleMinor, ";device=", device);
}

OrtCompiledModelCompatibility CheckCompatibility(const std::string& info) {
  const bool is_readable = info.starts_with(Concat("tandem.format=", kBundleMajor, "."));
  return is_readable ? OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL
                     : OrtCompiledModelCompatibility_EP_UNSUPPORTED;
}

bool IsContextNode(const OrtFunctions& ort, const OrtNode* node) {
  return OpType(ort, node) == kOpType && StringAttribute(ort, node, "source") == kEpName;
}

std::vector<std::shared_ptr<const Program>> LoadContexts(
    const OrtFunctions& ort, const std::vector<const OrtNode*>& nodes, Runtime& runtime,
    Device& device, const Properties& properties, const BundlePlaces& places, Verify verify) {
  std::vector<Context> contexts;
  std::shared_ptr<const Bundle> embedded;
  for (const OrtNode* node : nodes) {
    contexts.push_back(ReadContext(ort, node));
    Context& context = contexts.back();
    if (!context.embed_mode || !context.main_context || embedded) continue;
    embedded =
        OpenEmbedded(context.ep_cache_context, Concat("EPContext '", NodeName(ort, node), "'"));
    context.ep_cache_context.clear();
  }
  std::vector<std::shared_ptr<const Program>> programs;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Context& context = contexts[i];
    const std::string subject = Concat("EPContext '", NodeName(ort, nodes[i]), "'");
    const std::string& partition = context.partition_name;
    if (partition.size() < Digest::kHexDigits) {
      throw Error(ErrorCode::kInvalidModel, Concat(subject, ": found partition_name '", partition,
                                                   "', which names no program"));
    }
    if (context.embed_mode && !embedded) {
      throw Error(ErrorCode::kInvalidModel, Concat(subject, ": the model holds no bundle"));
    }
    const auto bundle = context.embed_mode
                            ? embedded
                            : OpenBundle(runtime, places, context.ep_cache_context, subject);
    programs.push_back(LoadProgram(runtime, device, properties, bundle,
                                   partition.substr(partition.size() - Digest::kHexDigits),
                                   verify));
  }
  return programs;
}

void CheckEmbeddable(uint64_t bytes) {
  if (bytes <= INT_MAX) return;
  throw Error(ErrorCode::kUnsupported,
              Concat("ep.context_embed_mode 1: the weights take ", bytes,
                     " bytes, a model holds at most ", INT_MAX, "; use ep.context_embed_mode 0"));
}

std::vector<OrtNode*> WriteContexts(const OrtFunctions& ort,
                                    const std::vector<const OrtNode*>& fused_nodes,
                                    const std::vector<std::shared_ptr<const Program>>& programs,
                                    Runtime& runtime, const std::string& device,
                                    const ContextSettings& settings, const fs::path& model_file) {
  BundleWriter writer;
  writer.SetMetadata("tandem.version", TANDEM_VERSION);
  writer.SetMetadata("tandem.openvino", OpenVino::Version());
  std::vector<Context> contexts;
  for (const auto& program : programs) {
    Context context;
    context.main_context = contexts.empty() || !settings.embeds;
    context.embed_mode = settings.embeds;
    context.partition_name = settings.node_prefix + AddProgram(writer, device, program);
    contexts.push_back(std::move(context));
  }
  if (contexts.empty()) return {};
  if (settings.embeds) {
    CheckEmbeddable(writer.size());
    contexts.front().ep_cache_context = writer.ToBytes();
  } else {
    const std::string bundle =
        WriteBundle(writer, runtime, settings, ContextFile(settings, model_file));
    for (Context& context : contexts) context.ep_cache_context = bundle;
  }
  std::vector<std::unique_ptr<OrtNode, decltype(ort.api.ReleaseNode)>> made;
  for (size_t i = 0; i < contexts.size(); ++i) {
    // ONNX Runtime finds the node of a partition by the name of the fused one.
    made.emplace_back(MakeNode(ort, fused_nodes[i], contexts[i], NodeName(ort, fused_nodes[i]),
                               model_file.filename().string()),
                      ort.api.ReleaseNode);
  }
  std::vector<OrtNode*> nodes;
  for (auto& node : made) nodes.push_back(node.release());
  return nodes;
}

}  // namespace tandem

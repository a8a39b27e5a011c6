#include "run/program_cache.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/strings.h"
#include "bundle/bundle_writer.h"
#include "graph/topology.h"
#include "run/bundled_program.h"

namespace fs = std::filesystem;

namespace tandem {
namespace {

constexpr const char* kExtension = ".safetensors";

}  // namespace

ProgramCache::ProgramCache(fs::path folder, uint64_t limit_bytes, Verify verify)
    : folder_(std::move(folder)), limit_bytes_(limit_bytes), verify_(verify) {}

std::shared_ptr<const Program> ProgramCache::Build(Runtime& runtime, Device& device,
                                                   const BuildOptions& options,
                                                   const Graph& partition) {
  // Weights by content, in an order that does not depend on the graph's.
  std::set<WeightKey> weights;
  DigestBuilder key;
  for (const Value& value : partition.values) {
    if (!value.weight || value.weight->bytes.size() < kInlineWeightBytes) continue;
    const auto weight = runtime.store().KeyOf(*value.weight);
    key.Add(value.name) << weight;
    weights.insert(weight);
  }
  DigestBuilder family;
  for (const WeightKey& weight : weights) family << weight;
  key.Add(WriteTopology(partition, DefaultPlaces(partition)).model);
  key.Add(device.name()).Add(OpenVino::Version()).Add(int64_t{options.has_shared_ops});
  key.Add(static_cast<int64_t>(options.activations))
      .Add(options.qdq_accuracy_level)
      .Add(int64_t{options.folds})
      .Add(static_cast<int64_t>(options.fold_limits.min_repeats));
  Built built{folder_ / (family.Finish().Hex() + kExtension), "cache/" + key.Finish().Hex(),
              nullptr};

  if (auto program = Find(runtime, device, options, built)) return program;
  BuildOptions self_contained = options;
  self_contained.is_self_contained = true;
  built.program = BuildProgram(runtime, device, self_contained, partition);
  built_.push_back(built);
  return built.program;
}

std::shared_ptr<const Program> ProgramCache::Find(Runtime& runtime, Device& device,
                                                  const BuildOptions& options,
                                                  const Built& wanted) {
  try {
    const auto bundle = runtime.OpenBundle(wanted.bundle);
    if (!bundle->tensors().contains(wanted.entry)) return nullptr;
    const ByteSpan digest = bundle->GetVerified(wanted.entry, Verify::kFull).bytes;
    auto program =
        LoadProgram(runtime, device, options.properties, bundle,
                    {reinterpret_cast<const char*>(digest.data()), digest.size()}, verify_);
    MarkAsUsed(wanted.bundle);
    return program;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) {
      warnings_.push_back(Concat("cache_dir: built again: ", error.what()));
    }
    return nullptr;
  }
}

void ProgramCache::Keep(Runtime& runtime, Device& device) {
  std::set<fs::path> paths;
  for (const Built& built : built_) paths.insert(built.bundle);
  try {
    if (!paths.empty()) fs::create_directories(folder_);
    for (const fs::path& path : paths) Write(runtime, device, path);
  } catch (const std::exception& error) {
    warnings_.push_back(Concat("cache_dir: nothing is kept: ", error.what()));
  }
  built_.clear();
}

void ProgramCache::Write(Runtime& runtime, Device& device, const fs::path& path) {
  const FolderLock lock(folder_);
  BundleWriter writer;
  try {
    writer.AddAll(runtime.OpenBundle(path), verify_);
  } catch (const Error&) {  // there is none, or a damaged one, which is replaced
    writer = {};
  }
  for (const Built& built : built_) {
    if (built.bundle != path) continue;
    const auto digest =
        std::make_shared<const std::string>(AddProgram(writer, device.name(), built.program));
    const ByteSpan bytes = std::as_bytes(std::span(*digest));
    writer.Add(built.entry, DataType::kUint8, {std::ssize(bytes)}, bytes, digest);
  }
  if (const uint64_t bytes = writer.size(); bytes > limit_bytes_) {
    throw Error(ErrorCode::kUnsupported,
                Concat("a bundle takes ", FormatBytes(bytes), ", cache_size_limit is ",
                       FormatBytes(limit_bytes_)));
  }
  writer.Write(path);
  Prune(path);
}

void ProgramCache::Prune(const fs::path& newest) const {
  struct File {
    int64_t used_ns;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().extension() != kExtension) continue;
    files.push_back({LastUse(entry.path()), entry.file_size(), entry.path()});
    bytes += files.back().bytes;
  }
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used_ns < b.used_ns; });
  for (const File& file : files) {
    if (bytes <= limit_bytes_) return;
    if (file.path == newest) continue;
    fs::remove(file.path);
    bytes -= file.bytes;
  }
}

std::vector<std::string> ProgramCache::TakeWarnings() {
  return std::exchange(warnings_, {});
}

}  // namespace tandem

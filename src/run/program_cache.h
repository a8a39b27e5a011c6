#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "run/program_builder.h"

namespace tandem {

// Programs kept in a folder for later processes (option cache_dir). Programs over the same weights
// share one bundle, whose name stands for those weights: a model is found by its content, whatever
// its path. A cache never fails: what cannot be read is built again, what cannot be written is not
// kept, and a warning says so. For one session.
class ProgramCache {
 public:
  // `limit_bytes`: of all bundles in the folder.
  ProgramCache(std::filesystem::path folder, uint64_t limit_bytes, Verify verify);

  // The program of a partition, from the cache or built with `options`. Throws as BuildProgram.
  std::shared_ptr<const Program> Build(Runtime& runtime, Device& device,
                                       const BuildOptions& options, const Graph& partition);

  // Keeps what was built since the last call; the least recently used bundles make room.
  void Keep(Runtime& runtime, Device& device);

  // What went wrong since the last call.
  std::vector<std::string> TakeWarnings();

 private:
  struct Built {
    std::filesystem::path bundle;
    std::string entry;  // the tensor that names the program
    std::shared_ptr<const Program> program;
  };

  std::shared_ptr<const Program> Find(Runtime& runtime, Device& device, const BuildOptions& options,
                                      const Built& wanted);
  void Write(Runtime& runtime, Device& device, const std::filesystem::path& path);
  void Prune(const std::filesystem::path& newest) const;

  std::filesystem::path folder_;
  uint64_t limit_bytes_;
  Verify verify_;
  std::vector<Built> built_;
  std::vector<std::string> warnings_;
};

}  // namespace tandem

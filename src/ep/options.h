#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bundle/bundle.h"
#include "device/device.h"
#include "graph/lower.h"

namespace tandem {

// What a user can set, by session options "ep.tandemexecutionprovider.<name>" or provider options.
// One table (options.cc) feeds the parser, docs/options.md and `--help`.
struct Options {
  std::string device;  // "": the first that the session was given
  std::string precision = "ACCURACY";
  int num_of_threads = 0;  // 0: the device decides
  int num_streams = 1;
  std::string load_config;  // JSON, already read if it was a file
  std::string cache_dir;
  int cache_size_limit = 16 * 1024;  // MiB
  std::string bundle_file;
  Verify verify = Verify::kAuto;
  bool share_weights = true;
  Activations activation_precision = Activations::kAuto;
  enum class Fold { kAuto, kOn, kOff } fold = Fold::kAuto;
  std::string report_file;
  std::string profile_file;

  // As the user gave them, for the session report.
  std::map<std::string, std::string> given;
};

// Parses options by name. Throws Error(kInvalidArgument) for an unknown name (with the nearest
// valid one, or what replaces an option of OpenVINO's own provider) and for a bad value.
Options ParseOptions(const std::map<std::string, std::string>& given);

// The settings of `device` ("CPU", "GPU.0") that the options ask for. Throws
// Error(kInvalidArgument) when load_config is no JSON or names an unknown device.
Properties PropertiesFor(const Options& options, const std::string& device);

// One row of the table, for documentation.
struct OptionRow {
  std::string_view name;
  std::string_view type;
  std::string_view default_value;
  std::string_view meaning;
};

std::vector<OptionRow> OptionTable();

// docs/options.md.
std::string OptionsDocument();

}  // namespace tandem

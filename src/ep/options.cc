#include "ep/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/strings.h"

namespace tandem {
namespace {

[[noreturn]] void BadValue(std::string_view name, std::string_view value, std::string_view wanted) {
  throw Error(ErrorCode::kInvalidArgument,
              Concat("option '", name, "': found '", value, "', expected ", wanted));
}

int ParseInt(std::string_view name, std::string_view value, int lowest) {
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < lowest) {
    BadValue(name, value, Concat("a whole number from ", lowest, " on"));
  }
  return number;
}

// One of `choices`, in any case; returns it as it is written there.
std::string_view ParseChoice(std::string_view name, std::string_view value,
                             std::span<const std::string_view> choices) {
  for (std::string_view choice : choices) {
    if (LowerCase(choice) == LowerCase(value)) return choice;
  }
  const std::string nearest = NearestName(value, choices);
  BadValue(name, value,
           Concat("one of ", Join(choices, ", "),
                  nearest.empty() ? "" : Concat("; did you mean '", nearest, "'?")));
}

constexpr std::array<std::string_view, 4> kPrecisions{"ACCURACY", "FP32", "FP16", "BF16"};
constexpr std::array<std::string_view, 2> kAutoOff{"auto", "off"};
constexpr std::array<std::string_view, 3> kAutoOnOff{"auto", "on", "off"};

constexpr std::array<std::string_view, 3> kActivations{"auto", "f32", "int8"};
constexpr std::array<std::string_view, 3> kVerify{"auto", "full", "off"};

struct Row {
  OptionRow row;
  void (*set)(Options& options, std::string_view name, const std::string& value);
};

constexpr std::array kTable{
    Row{{"device", "text", "",
         "Which of the devices that the session was given to use, by its metadata `ov_device`: "
         "CPU, "
         "GPU.0, NPU. Empty: the first."},
        [](Options& o, std::string_view, const std::string& v) { o.device = v; }},
    Row{{"precision", "ACCURACY, FP32, FP16 or BF16", "ACCURACY",
         "Arithmetic of the device. ACCURACY is never less than what the model says: f32 on a CPU. "
         "The others are asked for as they are named."},
        [](Options& o, std::string_view n, const std::string& v) {
          o.precision = ParseChoice(n, v, kPrecisions);
        }},
    Row{{"activation_precision", "auto, f32 or int8", "auto",
         "Activations that are multiplied with 4- and 8-bit weights on a CPU: f32 is exact; int8 "
         "quantizes them in blocks of up to 32 inputs, which is faster, above all for many rows. "
         "auto: as ONNX Runtime would, int8 at accuracy level 4: MatMulNBits says its own, a "
         "MatMul "
         "with 4-bit DequantizeLinear in blocks has that of the session's configuration entry "
         "`session.qdq_matmulnbits_accuracy_level`, 4 by default; all else is f32."},
        [](Options& o, std::string_view n, const std::string& v) {
          const std::string_view choice = ParseChoice(n, v, kActivations);
          o.activation_precision = choice == "auto"  ? Activations::kAuto
                                   : choice == "f32" ? Activations::kF32
                                                     : Activations::kInt8;
        }},
    Row{{"num_of_threads", "whole number", "0",
         "Threads of a run on the CPU. 0: as many as the session's intra-op pool has, up to one "
         "for "
         "each core. They are counted in the first run, which is slower for it when they are "
         "fewer."},
        [](Options& o, std::string_view n, const std::string& v) {
          o.num_of_threads = ParseInt(n, v, 0);
        }},
    Row{{"num_streams", "whole number", "1",
         "Runs of one session that are computed at the same time; further ones wait."},
        [](Options& o, std::string_view n, const std::string& v) {
          o.num_streams = ParseInt(n, v, 1);
        }},
    Row{{"load_config", "JSON text or file name", "",
         "OpenVINO properties by device: {\"CPU\": {\"ENABLE_HYPER_THREADING\": false}}. They take "
         "precedence over what other options set."},
        [](Options& o, std::string_view, const std::string& v) { o.load_config = v; }},
    Row{{"cache_dir", "folder", "",
         "Where to keep what is compiled, in bundles, for later processes: models are found there "
         "by their "
         "content. ep.context_enable takes precedence. A cache never fails a session: a warning "
         "says "
         "what could not be read or kept."},
        [](Options& o, std::string_view, const std::string& v) { o.cache_dir = v; }},
    Row{{"cache_size_limit", "MiB", "16384",
         "Of all bundles in cache_dir: the least recently used make room."},
        [](Options& o, std::string_view n, const std::string& v) {
          o.cache_size_limit = ParseInt(n, v, 0);
        }},
    Row{{"bundle_file", "file name", "",
         "With ep.context_enable: the bundle, beside the compiled model, to which this model's "
         "weights and "
         "programs are added; all models that name it share it, whichever process compiles them. "
         "Empty: one for the model, or for the group of ep.share_ep_contexts."},
        [](Options& o, std::string_view n, const std::string& v) {
          if (v.find('/') != std::string::npos) BadValue(n, v, "a name without a folder");
          o.bundle_file = v;
        }},
    Row{{"verify", "auto, full or off", "auto",
         "Whether the weights of a bundle are compared with their digests when a compiled model is "
         "loaded. "
         "auto: unless the file has the modification time that it was given when it was written."},
        [](Options& o, std::string_view n, const std::string& v) {
          const std::string_view choice = ParseChoice(n, v, kVerify);
          o.verify = choice == "auto"   ? Verify::kAuto
                     : choice == "full" ? Verify::kFull
                                        : Verify::kOff;
        }},
    Row{{"share_weights", "auto or off", "auto",
         "off leaves all weights to OpenVINO as constants, a private copy for each session: for "
         "comparisons."},
        [](Options& o, std::string_view n, const std::string& v) {
          o.share_weights = ParseChoice(n, v, kAutoOff) == "auto";
        }},
    Row{{"fold", "auto, on or off", "auto",
         "Compile repeated blocks (the layers of a transformer) once and call them as often as "
         "they "
         "repeat. auto: from four repeats of eight nodes on; on: from two repeats of two."},
        [](Options& o, std::string_view n, const std::string& v) {
          const std::string_view choice = ParseChoice(n, v, kAutoOnOff);
          o.fold = choice == "auto" ? Options::Fold::kAuto
                   : choice == "on" ? Options::Fold::kOn
                                    : Options::Fold::kOff;
        }},
    Row{{"report_file", "file name", "",
         "Where to keep a report (JSON) of all sessions of the process: which weights there are, "
         "in "
         "which form, and who shares them. Written again whenever a session comes or goes."},
        [](Options& o, std::string_view, const std::string& v) { o.report_file = v; }},
    Row{{"profile_file", "file name", "",
         "Where to keep a profile (JSON, trace events) of all sessions of the process that name "
         "it: how long each operator took in each run. Written whenever such a session ends; "
         "docs/profile.md describes it. From ONNX Runtime 1.25 on, `enable_profiling` of the "
         "session puts the same events into ONNX Runtime's own profile."},
        [](Options& o, std::string_view, const std::string& v) { o.profile_file = v; }},
};

// Options of OpenVINO's own provider that Tandem does not have, and what to do instead.
struct Retired {
  std::string_view name;
  std::string_view advice;
};

constexpr std::array kRetired{
    Retired{"device_type", "choose an OrtEpDevice, or its name with the option 'device'"},
    Retired{"device_id", "choose an OrtEpDevice, or its name with the option 'device'"},
    Retired{"device_luid", "choose an OrtEpDevice, or its name with the option 'device'"},
    Retired{"model_priority", "set MODEL_PRIORITY in 'load_config'"},
    Retired{"enable_opencl_throttling", "set PLUGIN_THROTTLE in 'load_config'"},
    Retired{"enable_qdq_optimizer", "set NPU_QDQ_OPTIMIZATION in 'load_config'"},
    Retired{"reshape_input", "set free dimensions of the session, or export the model with them"},
    Retired{"layout", "export the model in the layout of its inputs"},
    Retired{"disable_dynamic_shapes", "set free dimensions of the session"},
    Retired{"enable_causallm",
            "use the model as it is: key/value caches stay its inputs and outputs"},
    Retired{"context", "Tandem does not take OpenCL contexts"},
};

constexpr std::array<std::string_view, 6> kDevices{"CPU", "GPU", "NPU", "AUTO", "HETERO", "MULTI"};

nlohmann::json ParseConfig(const std::string& text_or_file) {
  const bool is_json = text_or_file.find('{') != std::string::npos;
  std::string text = text_or_file;
  try {
    if (!is_json) text = ReadTextFile(text_or_file);
    auto json = nlohmann::json::parse(text);
    if (json.is_object()) return json;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInvalidArgument, Concat("option 'load_config': ", error.what()));
  }
  BadValue("load_config", text, "an object of devices, {\"CPU\": {...}}");
}

std::string PropertyText(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "YES" : "NO";
  return value.dump();
}

}  // namespace

std::vector<OptionRow> OptionTable() {
  std::vector<OptionRow> rows;
  for (const Row& row : kTable) rows.push_back(row.row);
  return rows;
}

std::string OptionsDocument() {
  std::string text =
      "# Options\n\n"
      "<!-- Written by the test Options.TheDocumentIsCurrent with TANDEM_UPDATE_DOCS=1. -->\n\n"
      "Provider options, given to `add_provider_for_devices` (Python),\n"
      "`AppendExecutionProvider_V2` (C, C++) or ORT GenAI's `provider_options`, or as session\n"
      "configuration entries `ep.tandemexecutionprovider.<name>`. An unknown name or value is an\n"
      "error. Names and meanings are those of OpenVINO's own provider where it has the option.\n\n"
      "| option | value | default | meaning |\n|---|---|---|---|\n";
  for (const OptionRow& row : OptionTable()) {
    text += Concat("| `", row.name, "` | ", row.type, " | ",
                   row.default_value.empty() ? "" : Concat("`", row.default_value, "`"), " | ",
                   row.meaning, " |\n");
  }
  text += "\nOptions of OpenVINO's provider that Tandem does not have, and what to do instead:\n\n";
  for (const Retired& retired : kRetired) {
    text += Concat("- `", retired.name, "`: ", retired.advice, "\n");
  }
  text +=
      "\nThe environment variable `TANDEM_ISA` (`portable`, `avx2`, `avx_vnni`, `avx512`,\n"
      "`avx512_vnni`, `amx`) forces the kernels' instruction set; without it the best that the\n"
      "machine has is used.\n";
  return text;
}

Options ParseOptions(const std::map<std::string, std::string>& given) {
  Options options;
  options.given = given;
  for (const auto& [name, value] : given) {
    const auto row = std::find_if(kTable.begin(), kTable.end(),
                                  [&](const Row& candidate) { return candidate.row.name == name; });
    if (row != kTable.end()) {
      row->set(options, row->row.name, value);
      continue;
    }
    const auto retired = std::find_if(kRetired.begin(), kRetired.end(),
                                      [&](const Retired& r) { return r.name == name; });
    if (retired != kRetired.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  Concat("Tandem has no option '", name, "': ", retired->advice));
    }
    std::vector<std::string_view> names;
    for (const Row& candidate : kTable) names.push_back(candidate.row.name);
    const std::string nearest = NearestName(name, names);
    throw Error(ErrorCode::kInvalidArgument,
                Concat("Tandem has no option '", name, "'",
                       nearest.empty() ? Concat("; its options are ", Join(names, ", "))
                                       : Concat("; did you mean '", nearest, "'?")));
  }
  return options;
}

Properties PropertiesFor(const Options& options, const std::string& device) {
  const std::string kind = device.substr(0, device.find('.'));
  Properties properties{{"PERFORMANCE_HINT", "LATENCY"}};
  if (options.precision == "ACCURACY") {
    // OpenVINO otherwise computes in bf16 and quantizes activations to 8 bits where the CPU can.
    if (kind == "CPU") {
      properties["INFERENCE_PRECISION_HINT"] = "f32";
      properties["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "0";
    } else {
      properties["EXECUTION_MODE_HINT"] = "ACCURACY";
    }
  } else {
    properties["INFERENCE_PRECISION_HINT"] = options.precision == "FP32"   ? "f32"
                                             : options.precision == "FP16" ? "f16"
                                                                           : "bf16";
  }
  if (kind == "CPU") {
    properties["NUM_STREAMS"] = std::to_string(options.num_streams);
    if (options.num_of_threads > 0) {
      properties["INFERENCE_NUM_THREADS"] = std::to_string(options.num_of_threads);
    }
  }
  if (options.load_config.empty()) return properties;
  const nlohmann::json config = ParseConfig(options.load_config);
  for (const auto& [name, settings] : config.items()) {
    const std::string section = name.substr(0, name.find('.'));
    if (std::find(kDevices.begin(), kDevices.end(), section) == kDevices.end()) {
      BadValue("load_config", name, Concat("a device: ", Join(kDevices, ", ")));
    }
    if (!settings.is_object()) BadValue("load_config", settings.dump(), "an object of properties");
    if (name != device && name != kind) continue;
    for (const auto& [property, value] : settings.items())
      properties[property] = PropertyText(value);
  }
  return properties;
}

}  // namespace tandem

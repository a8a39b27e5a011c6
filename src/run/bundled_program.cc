#include "run/bundled_program.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"
#include "run/host_graph_json.h"
#include "run/program_builder.h"
#include "run/weight_forms.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kProgramPrefix = "program/";

constexpr size_t kMostBuffers = 100'000;  // between the functions of a program

// Value kinds by their number in files.
constexpr std::array kKinds{Program::ValueKind::kInput, Program::ValueKind::kOutput,
                            Program::ValueKind::kConstant, Program::ValueKind::kBuffer,
                            Program::ValueKind::kResult};

Json TypeAndShape(DataType type, const Shape& shape) {
  return {{"type", static_cast<int32_t>(type)}, {"shape", shape}};
}

class ProgramWriter {
 public:
  ProgramWriter(BundleWriter& writer, const std::shared_ptr<const Program>& program)
      : writer_(writer), program_(program) {}

  std::string Write(const std::string& device) {
    Json json{{"device", device}, {"inputs", program_->inputs}, {"in_place", program_->in_place}};
    for (const Program::Output& output : program_->outputs) {
      Json entry = TypeAndShape(output.type, output.shape);
      entry["name"] = output.name;
      json["outputs"].push_back(std::move(entry));
    }
    for (const auto& [name, handle] : program_->weights) {
      json["weights"].push_back(WeightJson(name, *handle));
    }
    for (const auto& function : program_->functions)
      json["functions"].push_back(FunctionJson(function));
    for (const Program::Value& value : program_->values) json["values"].push_back(ValueJson(value));
    for (const Program::Call& call : program_->calls) {
      json["calls"].push_back({{"function", call.function},
                               {"request", call.request},
                               {"inputs", call.inputs},
                               {"outputs", call.outputs}});
      for (const Program::Call::Cache& cache : call.caches) {
        json["calls"].back()["caches"].push_back(
            {CacheValue(cache.past), CacheValue(cache.present)});
      }
    }
    for (const Program::Constant& constant : program_->constants) {
      json["constants"].push_back(
          {{"name", constant.name}, {"bytes", constant.bytes}, {"reason", constant.reason}});
    }
    return AddText(kProgramPrefix, json.dump()).substr(kProgramPrefix.size());
  }

 private:
  // Adds a text under the prefix and its own digest.
  std::string AddText(std::string_view prefix, std::string text) {
    const auto owner = std::make_shared<const std::string>(std::move(text));
    const ByteSpan bytes = std::as_bytes(std::span(*owner));
    const std::string name = Concat(prefix, DigestOf(bytes).Hex());
    writer_.Add(name, DataType::kUint8, {std::ssize(bytes)}, bytes, owner);
    return name;
  }

  Json WeightJson(const std::string& name, const WeightSlot& slot) {
    const WeightForm& form = slot.form();
    Json json{{"name", name}, {"key", form.key.Hex()}};
    if (form.packed) {
      const PackedSpec& spec = form.packed->spec();
      const ByteSpan bytes = form.packed->bytes();
      json["tensor"] = Concat("packed/", form.key.Hex(), "/", static_cast<uint32_t>(spec.layout));
      json["packed"] = {{"layout", static_cast<uint32_t>(spec.layout)},
                        {"n", spec.n},
                        {"k", spec.k},
                        {"block_k", spec.block_k},
                        {"has_zero_points", spec.has_zero_points},
                        {"zero_point", spec.zero_point}};
      writer_.Add(json["tensor"], DataType::kUint8, {std::ssize(bytes)}, bytes, program_);
    } else {
      const Tensor& tensor = *form.plain;
      json["tensor"] = Concat("weight/", form.key.Hex());
      json["plain"] = TypeAndShape(tensor.type, tensor.shape);
      writer_.Add(json["tensor"], tensor.type, tensor.shape, {tensor.data, tensor.bytes()},
                  program_);
    }
    return json;
  }

  Json FunctionJson(const Program::CompiledFunction& function) {
    if (function.host) return {{"host", HostGraphToJson(*function.host)}};
    const FunctionSource& source = *function.source;
    return {{"topology", AddText("topology/", source.topology)},
            {"topology_inputs", source.topology_inputs},
            {"inputs", source.inputs},
            {"outputs", source.outputs},
            {"constants", function.constants},
            {"is_compact", source.is_compact}};
  }

  static Json CacheValue(size_t value) {
    return value == Program::Call::Cache::kNone ? Json() : Json(value);
  }

  static Json ValueJson(const Program::Value& value) {
    Json json = TypeAndShape(value.type, value.shape);
    json["kind"] = std::find(kKinds.begin(), kKinds.end(), value.kind) - kKinds.begin();
    json["index"] = value.index;
    json["must_copy"] = value.must_copy;
    json["weights"] = value.weights;
    json["is_slots"] = value.is_slots;
    return json;
  }

  BundleWriter& writer_;
  std::shared_ptr<const Program> program_;
};

// Reads a program. Whatever it says about itself is checked before it is used.
class ProgramReader {
 public:
  ProgramReader(Runtime& runtime, Device& device, const Properties& properties,
                const std::shared_ptr<const Bundle>& bundle, const std::string& digest,
                Verify verify)
      : runtime_(runtime),
        device_(device),
        properties_(properties),
        forms_(runtime.store(), runtime.bank()),
        bundle_(bundle),
        name_(Concat(kProgramPrefix, digest)),
        verify_(verify) {}

  std::shared_ptr<const Program> Read() {
    if (!bundle_->tensors().contains(name_)) {
      std::vector<std::string> programs;
      for (const auto& [tensor, unused] : bundle_->tensors()) {
        if (tensor.starts_with(kProgramPrefix)) programs.push_back(tensor);
      }
      Fail(Concat("it has no '", name_, "'; it has ", programs.size(),
                  " programs: ", Join(programs, ", "),
                  ". It was made for other models, or they were compiled again"));
    }
    try {
      const Json json = Json::parse(Text(name_));
      const auto device = json.at("device").get<std::string>();
      if (device != device_.name()) {
        throw Error(ErrorCode::kUnsupported,
                    Concat("bundle ", bundle_->name(), ": '", name_, "' is for the device ", device,
                           ", the session uses ", device_.name()));
      }
      ReadAll(json);
    } catch (const Json::exception& error) {
      Fail(Concat("'", name_, "' contradicts itself: ", error.what()));
    }
    return std::make_shared<const Program>(std::move(program_));
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalidModel, Concat("bundle ", bundle_->name(), ": ", what));
  }

  void Require(bool condition, const char* what) const {
    if (!condition) Fail(Concat("'", name_, "' contradicts itself: ", what));
  }

  // A position in a list of `size`.
  size_t Position(const Json& json, size_t size, const char* what) const {
    const auto position = json.get<size_t>();
    Require(position < size, what);
    return position;
  }

  std::vector<size_t> Positions(const Json& json, size_t size, const char* what) const {
    std::vector<size_t> positions;
    for (const Json& entry : json) positions.push_back(Position(entry, size, what));
    return positions;
  }

  // Programs and topologies are checked whatever `verify` says: they are small.
  std::string Text(const std::string& tensor) const {
    const ByteSpan bytes = bundle_->GetVerified(tensor, Verify::kFull).bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  static const Json& List(const Json& json, const char* name) {
    static const Json nothing = Json::array();
    return json.contains(name) ? json.at(name) : nothing;
  }

  DataType Type(const Json& json) const { return DataTypeFromOnnx(json.at("type").get<int32_t>()); }

  void ReadAll(const Json& json) {
    program_.inputs = json.at("inputs").get<std::vector<std::string>>();
    for (const Json& output : List(json, "outputs")) {
      program_.outputs.push_back(
          {output.at("name").get<std::string>(), Type(output), output.at("shape").get<Shape>()});
    }
    for (const Json& pair : json.at("in_place")) {
      program_.in_place.emplace_back(Position(pair.at(0), program_.inputs.size(), "in_place"),
                                     Position(pair.at(1), program_.outputs.size(), "in_place"));
    }
    for (const Json& weight : List(json, "weights")) {
      program_.AddWeight(weight.at("name").get<std::string>(), ReadWeight(weight));
    }
    for (const Json& function : List(json, "functions")) {
      program_.functions.push_back(function.contains("host")
                                       ? HostFunction(HostGraphFromJson(function.at("host")))
                                       : ReadFunction(function));
    }
    for (const Json& value : List(json, "values")) program_.values.push_back(ReadValue(value));
    for (const Json& call : List(json, "calls")) program_.calls.push_back(ReadCall(call));
    for (const Json& constant : List(json, "constants")) {
      program_.constants.push_back({constant.at("name").get<std::string>(),
                                    constant.at("bytes").get<uint64_t>(),
                                    constant.at("reason").get<std::string>()});
    }
  }

  WeightHandle ReadWeight(const Json& json) {
    const auto key = DigestFromHex(json.at("key").get<std::string>());
    Require(key.has_value(), "the key of a weight");
    const auto tensor = json.at("tensor").get<std::string>();
    // A name stands for its content: who has the form already need not read it here.
    Require(tensor.find(key->Hex()) != std::string::npos, "a weight's key and its tensor");
    const StoredBytes stored{bundle_->GetVerified(tensor, verify_).bytes, bundle_->owner(),
                             !bundle_->is_file()};
    if (json.contains("packed")) {
      const Json& packed = json.at("packed");
      const PackedSpec spec{.layout = static_cast<Layout>(packed.at("layout").get<uint32_t>()),
                            .n = packed.at("n").get<uint64_t>(),
                            .k = packed.at("k").get<uint64_t>(),
                            .block_k = packed.at("block_k").get<uint64_t>(),
                            .has_zero_points = packed.at("has_zero_points").get<bool>(),
                            .zero_point = packed.at("zero_point").get<float>()};
      return forms_.StoredPacked(*key, spec, stored);
    }
    const Json& plain = json.at("plain");
    const DataType type = Type(plain);
    const auto shape = plain.at("shape").get<Shape>();
    Require(BitWidth(type) > 0 && TensorBytes(type, shape) == stored.bytes.size(),
            "the size of a weight");
    return forms_.StoredPlain(*key, type, shape, stored);
  }

  Program::CompiledFunction ReadFunction(const Json& json) {
    auto source = std::make_shared<FunctionSource>();
    source->topology = Text(json.at("topology").get<std::string>());
    source->topology_inputs = json.at("topology_inputs").get<std::vector<std::string>>();
    source->inputs = json.at("inputs").get<std::vector<std::string>>();
    source->outputs = json.at("outputs").get<std::vector<std::string>>();
    source->is_compact = json.at("is_compact").get<bool>();
    Program::CompiledFunction function;
    for (const auto& [name, position] : json.at("constants").items()) {
      const size_t weight = Position(position, program_.weights.size(), "a constant of a function");
      const WeightHandle& handle = program_.weights[weight].second;
      Require(handle->form().plain.has_value(), "a constant that is packed");
      Tensor tensor = *handle->form().plain;
      tensor.owner = handle;
      source->constants[name] = std::move(tensor);
      function.constants[name] = weight;
    }
    function.source = std::move(source);
    function.source_key = SourceKey(program_, function, DigestBuilder().Finish());
    function.function = CompileShared(runtime_.functions(), device_, properties_, function);
    return function;
  }

  Program::Value ReadValue(const Json& json) {
    Program::Value value;
    value.kind = kKinds[Position(json.at("kind"), kKinds.size(), "the kind of a value")];
    value.index = json.at("index").get<size_t>();
    value.type = Type(json);
    value.shape = json.at("shape").get<Shape>();
    value.must_copy = json.at("must_copy").get<bool>();
    value.is_slots = json.at("is_slots").get<bool>();
    value.weights =
        Positions(json.at("weights"), program_.weights.size(), "the weights of a value");
    switch (value.kind) {
      case Program::ValueKind::kInput:
        Require(value.index < program_.inputs.size(), "a value that is an input");
        break;
      case Program::ValueKind::kOutput:
        Require(value.index < program_.outputs.size(), "a value that is an output");
        break;
      case Program::ValueKind::kBuffer:
        Require(value.index < kMostBuffers && BitWidth(value.type) > 0, "a value in a buffer");
        if (value.index >= program_.buffer_bytes.size()) {
          program_.buffer_bytes.resize(value.index + 1);
        }
        program_.buffer_bytes[value.index] =
            std::max(program_.buffer_bytes[value.index], TensorBytes(value.type, value.shape));
        break;
      case Program::ValueKind::kConstant:
        ReadConstant(value);
        break;
      case Program::ValueKind::kResult:
        break;
    }
    return value;
  }

  void ReadConstant(Program::Value& value) {
    if (value.is_slots) {
      value.constant = SlotNumbers(program_, value.weights);
      return;
    }
    Require(value.weights.size() == 1, "a constant");
    const WeightForm& form = program_.weights[value.weights[0]].second->form();
    Require(form.plain.has_value(), "a constant that is packed");
    value.constant = *form.plain;
  }

  Program::Call ReadCall(const Json& json) {
    Program::Call call;
    call.function = Position(json.at("function"), program_.functions.size(), "a call");
    call.request = Position(json.at("request"), 2, "a call's request");
    call.inputs = Positions(json.at("inputs"), program_.values.size(), "a call's inputs");
    call.outputs = Positions(json.at("outputs"), program_.values.size(), "a call's outputs");
    const Function& function = *program_.functions[call.function].function;
    const size_t cache_inputs = List(json, "caches").empty() ? 0 : 1;
    Require(call.inputs.size() + cache_inputs == function.inputs().size(),
            "the number of a call's inputs");
    Require(call.outputs.size() == function.outputs().size(), "the number of a call's outputs");
    for (const Json& cache : List(json, "caches")) {
      const auto value = [&](const Json& entry) {
        return entry.is_null() ? Program::Call::Cache::kNone
                               : Position(entry, program_.values.size(), "a cache");
      };
      call.caches.push_back({value(cache.at(0)), value(cache.at(1))});
    }
    return call;
  }

  Runtime& runtime_;
  Device& device_;
  const Properties& properties_;
  WeightForms forms_;
  std::shared_ptr<const Bundle> bundle_;
  std::string name_;
  Verify verify_;
  Program program_;
};

}  // namespace

std::string AddProgram(BundleWriter& writer, const std::string& device,
                       const std::shared_ptr<const Program>& program) {
  return ProgramWriter(writer, program).Write(device);
}

std::shared_ptr<const Program> LoadProgram(Runtime& runtime, Device& device,
                                           const Properties& properties,
                                           const std::shared_ptr<const Bundle>& bundle,
                                           const std::string& digest, Verify verify) {
  return ProgramReader(runtime, device, properties, bundle, digest, verify).Read();
}

}  // namespace tandem

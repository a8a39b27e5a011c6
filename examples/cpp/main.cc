// Generates tokens with a prefill and a decode session that share one copy of their weights.
//
//   generate LIBRARY FOLDER NEW_TOKENS TOKEN...
//
// LIBRARY is libonnxruntime_ep_tandem.so; FOLDER holds prefill.onnx and decode.onnx, made by
// examples/smollm2/export.py --weights f32|int4 --operators plain; TOKENs are the prompt. Prints
// the new tokens.

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace {

constexpr const char* kProvider = "TandemExecutionProvider";

// Session options that run on Tandem: the devices that it lists, and ONNX Runtime's own graph
// optimizations off, since OpenVINO does its own.
Ort::SessionOptions OptionsFor(Ort::Env& env) {
  std::vector<Ort::ConstEpDevice> devices;
  for (const Ort::ConstEpDevice& device : env.GetEpDevices()) {
    if (std::string_view(device.EpName()) == kProvider) devices.push_back(device);
  }
  Ort::SessionOptions options;
  options.SetGraphOptimizationLevel(ORT_DISABLE_ALL);
  options.AppendExecutionProvider_V2(env, devices, Ort::KeyValuePairs());
  return options;
}

// A session with static shapes and memory for all that it reads and returns, bound once.
class BoundSession {
 public:
  BoundSession(const Ort::Env& env, const std::string& model, const Ort::SessionOptions& options)
      : session_(env, model.c_str(), options), binding_(session_) {
    Ort::AllocatorWithDefaultOptions allocator;
    for (size_t i = 0; i < session_.GetInputCount(); ++i) {
      const std::string name = session_.GetInputNameAllocated(i, allocator).get();
      binding_.BindInput(name.c_str(), Allocate(name, session_.GetInputTypeInfo(i)));
    }
    for (size_t i = 0; i < session_.GetOutputCount(); ++i) {
      const std::string name = session_.GetOutputNameAllocated(i, allocator).get();
      binding_.BindOutput(name.c_str(), Allocate(name, session_.GetOutputTypeInfo(i)));
    }
  }

  void Run() { session_.Run(Ort::RunOptions(), binding_); }

  template <typename T>
  T* Data(const std::string& name) {
    return tensors_.at(name).GetTensorMutableData<T>();
  }

  std::vector<int64_t> Shape(const std::string& name) {
    return tensors_.at(name).GetTensorTypeAndShapeInfo().GetShape();
  }

  // Names of the inputs or outputs that start with `prefix`.
  std::vector<std::string> Names(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) {
      if (name.starts_with(prefix)) names.push_back(name);
    }
    return names;
  }

 private:
  const Ort::Value& Allocate(const std::string& name, const Ort::TypeInfo& type) {
    const auto tensor = type.GetTensorTypeAndShapeInfo();
    const std::vector<int64_t> shape = tensor.GetShape();
    Ort::AllocatorWithDefaultOptions allocator;
    Ort::Value value =
        Ort::Value::CreateTensor(allocator, shape.data(), shape.size(), tensor.GetElementType());
    std::memset(value.GetTensorMutableRawData(), 0, value.GetTensorSizeInBytes());
    return tensors_.emplace(name, std::move(value)).first->second;
  }

  Ort::Session session_;
  Ort::IoBinding binding_;
  std::map<std::string, Ort::Value> tensors_;
};

int64_t Largest(const float* logits, int64_t count) {
  return std::max_element(logits, logits + count) - logits;
}

// Copies rows of the cache: [1, heads, rows, size] each.
void CopyRows(BoundSession& from, int64_t from_row, BoundSession& to, int64_t to_row,
              int64_t rows) {
  for (const std::string& past : to.Names("past_key_values.")) {
    const std::string present = "present." + past.substr(std::strlen("past_key_values."));
    const std::vector<int64_t> from_shape = from.Shape(present);
    const std::vector<int64_t> to_shape = to.Shape(past);
    const int64_t size = from_shape[3];
    for (int64_t head = 0; head < from_shape[1]; ++head) {
      const float* source = from.Data<float>(present) + (head * from_shape[2] + from_row) * size;
      std::copy_n(source, rows * size, to.Data<float>(past) + (head * to_shape[2] + to_row) * size);
    }
  }
}

int Generate(const std::string& library, const std::string& folder, int64_t new_tokens,
             const std::vector<int64_t>& prompt) {
  Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "generate");
  // ONNX Runtime looks for a relative path beside its own library.
  env.RegisterExecutionProviderLibrary("tandem", std::filesystem::absolute(library).string());
  {
    const Ort::SessionOptions options = OptionsFor(env);
    BoundSession prefill(env, folder + "/prefill.onnx", options);
    BoundSession decode(env, folder + "/decode.onnx", options);  // no second copy of the weights

    const auto used = static_cast<int64_t>(prompt.size());
    const int64_t capacity = decode.Shape(decode.Names("past_key_values.").front())[2];
    const int64_t vocabulary = decode.Shape("logits")[2];
    if (used < 1 || used > prefill.Shape("input_ids")[1] || used + new_tokens > capacity) {
      std::cerr << "room for " << prefill.Shape("input_ids")[1] << " tokens of prompt and "
                << capacity << " in all\n";
      return 2;
    }
    std::copy(prompt.begin(), prompt.end(), prefill.Data<int64_t>("input_ids"));
    std::fill_n(prefill.Data<int64_t>("attention_mask"), used, 1);
    auto* positions = prefill.Data<int64_t>("position_ids");
    std::iota(positions, positions + prefill.Shape("position_ids")[1], 0);
    prefill.Run();
    int64_t token = Largest(prefill.Data<float>("logits") + (used - 1) * vocabulary, vocabulary);
    CopyRows(prefill, 0, decode, 0, used);

    std::fill_n(decode.Data<int64_t>("attention_mask"), used, 1);
    decode.Data<int64_t>("attention_mask")[capacity] = 1;  // the new token itself
    for (int64_t position = used;; ++position) {
      std::cout << token << ' ' << std::flush;
      if (position == used + new_tokens - 1) break;
      *decode.Data<int64_t>("input_ids") = token;
      *decode.Data<int64_t>("position_ids") = position;
      decode.Run();
      token = Largest(decode.Data<float>("logits"), vocabulary);
      CopyRows(decode, capacity, decode, position, 1);
      decode.Data<int64_t>("attention_mask")[position] = 1;
    }
    std::cout << '\n';
  }
  env.UnregisterExecutionProviderLibrary("tandem");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "usage: generate LIBRARY FOLDER NEW_TOKENS TOKEN...\n";
    return 2;
  }
  try {
    std::vector<int64_t> prompt;
    for (int i = 4; i < argc; ++i) prompt.push_back(std::stoll(argv[i]));
    return Generate(argv[1], argv[2], std::stoll(argv[3]), prompt);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

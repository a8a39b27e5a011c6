#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "device/tensor.h"
#include "weights/digest.h"

namespace tandem {

// The seam between Tandem and what computes: a device compiles functions, functions make requests,
// requests run. OpenVINO's devices are behind it (ov_device.h), and the doubles of the tests.

// An input or output of a function.
struct Port {
  std::string name;
  DataType type = DataType::kUndefined;
  Shape shape;  // -1: known only when it runs
};

// An operator of a function, for who measures it.
struct OpLabel {
  std::string name;      // of the node in the topology, or what the device calls it
  std::string type;      // "SharedMatMul"
  std::string executor;  // one of those below
  std::string kernel;    // of the device: "jit_avx512_f32"; empty: unknown
};

constexpr const char* kOnTandem = "Tandem";
constexpr const char* kInOpenVino = "Tandem in OpenVINO";  // of Tandem, called by a compiled model
constexpr const char* kOnOpenVino = "OpenVINO";

// An operator in one run.
struct OpTime {
  std::shared_ptr<const OpLabel> op;
  Interval time;
  Shape shape;                // of its first result; empty: a scalar, or unknown
  uint64_t weight_bytes = 0;  // that it multiplied with
};

using OpTimes = std::vector<OpTime>;

// One function in one state of execution. Not safe for use from several threads at once.
class Request {
 public:
  virtual ~Request() = default;

  // The tensor is read in place: it must stay until the next SetInput of this input or the end of
  // the request. Type and shape must fit the port, else Error(kInvalidArgument).
  virtual void SetInput(size_t input, const Tensor& tensor) = 0;

  // The result is written in place. Only for outputs with a static shape.
  virtual void SetOutput(size_t output, const Tensor& tensor) = 0;

  // Appends what it measures to `times`, if there are any. Throws Error(kDevice), or the Error of
  // one of Tandem's own operators.
  virtual void Run(OpTimes* times) = 0;
  void Run() { Run(nullptr); }

  // The result of the last Run. Memory of the request, if SetOutput did not give another: it is
  // overwritten by the next Run.
  virtual Tensor Output(size_t output) = 0;
};

// A compiled function. Safe for use from several threads.
class Function {
 public:
  virtual ~Function() = default;

  virtual const std::vector<Port>& inputs() const = 0;
  virtual const std::vector<Port>& outputs() const = 0;
  virtual std::unique_ptr<Request> NewRequest() = 0;

  // Threads that a run uses.
  virtual int threads() const = 0;
};

// What a function is made from.
struct FunctionSource {
  std::string topology;                      // a serialized ONNX ModelProto (graph/topology.h)
  std::vector<std::string> topology_inputs;  // names of its inputs, all of which are read
  std::vector<std::string> inputs;           // names, in the order of Function::inputs()
  std::vector<std::string> outputs;          // likewise
  // Inputs of the topology that are constants. Their memory is used in place and held.
  std::map<std::string, Tensor> constants;
  // Private memory of the compiled function matters more than the last of its speed.
  bool is_compact = false;
};

// Settings of a device by its own names: for OpenVINO, properties and their values as text.
using Properties = std::map<std::string, std::string>;

constexpr const char* kThreadsProperty = "INFERENCE_NUM_THREADS";
constexpr const char* kProfilingProperty = "PERF_COUNT";  // the device's own operators are measured

// Safe for use from several threads.
class Device {
 public:
  virtual ~Device() = default;

  // "CPU", "GPU.0", ...
  virtual const std::string& name() const = 0;

  // Throws Error(kInvalidArgument) when the device does not know a property or its value.
  virtual void CheckProperties(const Properties& properties) = 0;

  // Throws Error(kUnsupported) when the device lacks an operator or refuses the topology.
  virtual std::shared_ptr<Function> Compile(const FunctionSource& source,
                                            const Properties& properties) = 0;
};

}  // namespace tandem

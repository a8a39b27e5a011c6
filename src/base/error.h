#pragma once

#include <stdexcept>
#include <string>

namespace tandem {

// Whose fault it is, as far as that decides what a caller can do about it.
enum class ErrorCode {
  kInvalidArgument,  // an option, an input or a call of the user
  kNotFound,         // a file or a name that something refers to does not exist
  kInvalidModel,     // a model or its data contradicts itself
  kUnsupported,      // valid, but nothing that Tandem or the device can do
  kIo,               // the operating system refused
  kDevice,           // OpenVINO or a driver refused
  kInternal,         // a bug of Tandem
};

// The one exception type of Tandem. The message names the thing, what was found and what was
// expected. What happens in normal life (a node that a device lacks) is a return value instead.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace tandem

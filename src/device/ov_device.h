#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

namespace tandem {

// OpenVINO (https://docs.openvino.ai), with Tandem's operators added: the only place that knows its
// classes and quirks besides ops/. Safe for use from several threads; devices keep it alive.
class OpenVino {
 public:
  // Reads OpenVINO's list of plugins; they are loaded when their device is used.
  OpenVino();
  ~OpenVino();

  // "CPU", "GPU.0", "NPU", ...: loads all plugins.
  std::vector<std::string> AvailableDevices() const;

  // "2026.4.1-...".
  static std::string Version();

  // Throws Error(kInvalidArgument) when OpenVINO has no such device.
  std::shared_ptr<Device> GetDevice(const std::string& name);

 private:
  friend class OvDevice;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tandem

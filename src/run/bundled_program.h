#pragma once

#include <memory>
#include <string>

#include "bundle/bundle.h"
#include "bundle/bundle_writer.h"
#include "run/program.h"
#include "run/runtime.h"

namespace tandem {

// Programs in bundles: what Tandem compiled, as far as it does not depend on the machine. A bundle
// holds the topologies of a program's functions, which the device compiles again when the program
// is loaded (OpenVINO's CPU plugin does the same with its own files), and the weights in the form
// in which they are used. docs/bundle-format.md describes both.

// Adds a program that was built for the device `device` with `is_self_contained`, and its weights.
// Returns the digest (Digest::Hex) by which it is found. The writer borrows the weights' memory,
// which the program keeps.
std::string AddProgram(BundleWriter& writer, const std::string& device,
                       const std::shared_ptr<const Program>& program);

// The program with this digest. Weights are used where they are in the bundle, unless a session of
// the process has the same form already.
//
// Throws Error(kInvalidModel), naming the bundle, when it has no such program, or contradicts
// itself; Error(kUnsupported) when the program is for another device.
std::shared_ptr<const Program> LoadProgram(Runtime& runtime, Device& device,
                                           const Properties& properties,
                                           const std::shared_ptr<const Bundle>& bundle,
                                           const std::string& digest, Verify verify);

}  // namespace tandem

#pragma once

#include <filesystem>
#include <string>

namespace tandem {

// Where a file lives that a model refers to by name. The name comes from the model and is not
// trusted: it may only lead to a regular file below `folder`.
//
// `folder` is the folder of the model, or the one the user named in its place. `model_file` is the
// model itself, empty for a model from memory: a symbolic link may leave the folder only for the
// folder in which the model file really lives (the layout of a Hugging Face cache, where model and
// data are both links into a sibling folder).
//
// Throws Error(kInvalidModel) for an absolute or empty name, a `..`, or a link that leaves;
// Error(kNotFound) when nothing is there; Error(kIo) when it is a device, a FIFO or a folder. The
// message starts with `subject` ("weight 'w'").
std::filesystem::path ResolveReference(const std::filesystem::path& folder, const std::string& name,
                                       const std::filesystem::path& model_file,
                                       const std::string& subject);

}  // namespace tandem

#include "base/path_guard.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/strings.h"

namespace fs = std::filesystem;

namespace tandem {
namespace {

bool IsBelow(const fs::path& folder, const fs::path& file) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
         folder.end();
}

}  // namespace

fs::path ResolveReference(const fs::path& folder, const std::string& name,
                          const fs::path& model_file, const std::string& subject) {
  const auto refuse = [&](ErrorCode code, std::string_view why) {
    throw Error(code, Concat(subject, ": file '", name.c_str(), "' ", why));
  };
  const fs::path relative(name);
  if (name.empty()) refuse(ErrorCode::kInvalidModel, "has an empty name");
  if (name.find('\0') != std::string::npos) {
    refuse(ErrorCode::kInvalidModel, "has a zero byte in its name");
  }
  if (relative.is_absolute() || relative.has_root_name()) {
    refuse(ErrorCode::kInvalidModel, "is named by an absolute path; expected one below the model");
  }
  if (std::find(relative.begin(), relative.end(), "..") != relative.end()) {
    refuse(ErrorCode::kInvalidModel, "has '..' in its name; expected a path below the model");
  }

  const fs::path root = folder.empty() ? fs::path(".") : folder;
  const fs::path path = root / relative;
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  if (failed) {
    refuse(ErrorCode::kNotFound,
           Concat("cannot be opened at '", path.string(), "': ", failed.message()));
  }
  const fs::path real_folder = fs::canonical(root, failed);
  const bool beside_model =
      !model_file.empty() && fs::canonical(model_file, failed).parent_path() == real.parent_path();
  if (!IsBelow(real_folder, real) && !beside_model) {
    refuse(ErrorCode::kInvalidModel,
           Concat("is a link to '", real.string(), "', outside the model's folder '",
                  real_folder.string(), "'"));
  }
  if (!fs::is_regular_file(real, failed)) refuse(ErrorCode::kIo, "is not a regular file");
  return real;
}

}  // namespace tandem

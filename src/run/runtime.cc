#include "run/runtime.h"

namespace tandem {

std::shared_ptr<Runtime> Runtime::Get() {
  // Never destroyed, so that sessions may outlive whatever order a process ends in.
  static auto* const mutex = new std::mutex();
  static auto* const current = new std::weak_ptr<Runtime>();
  const std::lock_guard lock(*mutex);
  if (auto runtime = current->lock()) return runtime;
  const std::shared_ptr<Runtime> runtime(new Runtime());
  *current = runtime;
  return runtime;
}

}  // namespace tandem

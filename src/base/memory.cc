#include "base/memory.h"

#include <malloc.h>

namespace tandem {

void ReturnFreeMemory() {
  ::malloc_trim(0);
}

}  // namespace tandem

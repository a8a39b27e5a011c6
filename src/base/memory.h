#pragma once

namespace tandem {

// Gives memory that the allocator keeps for later back to the operating system. Compiling a model
// takes and frees far more than it keeps.
void ReturnFreeMemory();

}  // namespace tandem

#pragma once

#include <vector>

#include "driver/compilation.h"
#include "runtime/kernel_image.h"
#include "support/entry_cache.h"

namespace weft {

/// The architecture of a GPU's code: "sm_90".
std::string device_arch(const Target& target);

/// Cubins of the compilation's kernels for its GPU, by NVRTC in helper processes, each distinct one
/// once: kernels that differ in names alone share one. `cache` may be null. Sets the kernels'
/// images, the counts and device_notes.
///
/// A kernel that spills registers to memory is scheduled again for a device with half the
/// registers a thread, a chain with three quarters, which makes templates take smaller tiles; what
/// spills less is kept, in the plan too, and device_notes says what became of it. Errors:
/// kMissingDevice without an NVRTC that compiles for the target; kInternal when code needs more
/// than the plan promised (registers or shared memory of a block; blocks resident for a barrier of
/// the grid).
Result<std::vector<KernelImage>> compile_device_kernels(Compilation& c, EntryCache* cache);

}  // namespace weft

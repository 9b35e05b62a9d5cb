#pragma once

#include <vector>

#include "driver/compilation.h"
#include "runtime/kernel_image.h"
#include "support/entry_cache.h"

namespace weft {

/// Machine code of the compilation's kernels, each distinct one once: from the cache where it has
/// them, else generated in parallel. `cache` may be null. Sets the kernels' images and the counts.
Result<std::vector<KernelImage>> generate_kernels(Compilation& c, EntryCache* cache);

/// For a GPU whose code is not asked for: an image without code for each kernel, with its name and
/// phases. Sets the kernels' images and the counts.
Result<std::vector<KernelImage>> describe_device_kernels(Compilation& c);

}  // namespace weft

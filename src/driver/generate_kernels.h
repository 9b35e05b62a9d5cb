#pragma once

#include <string>
#include <vector>

#include "driver/compiler.h"
#include "runtime/kernel_image.h"

namespace weft {

/// $WEFT_CACHE, else $XDG_CACHE_HOME/weft, else ~/.cache/weft; empty when none of them is set.
std::string default_cache_dir();

/// Machine code of the compilation's kernels, each distinct one once: from the cache where it has
/// them, else generated in parallel. Sets image_of and the counts.
Result<std::vector<KernelImage>> generate_kernels(Compilation& c);

}  // namespace weft

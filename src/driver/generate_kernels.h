#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/compiler.h"
#include "runtime/kernel_image.h"
#include "support/cache_folder.h"

namespace weft {

/// The folder that the options name; nullptr without one.
std::unique_ptr<CacheFolder> open_cache(const CompileOptions& options);

/// $WEFT_CACHE, else $XDG_CACHE_HOME/weft, else ~/.cache/weft; empty when none of them is set.
std::string default_cache_dir();

/// Machine code of the compilation's kernels, each distinct one once: from the cache where it has
/// them, else generated in parallel. `cache` may be null. Sets image_of and the counts.
Result<std::vector<KernelImage>> generate_kernels(Compilation& c, CacheFolder* cache);

/// For a GPU whose code is not asked for: an image without code for each kernel, with its name and
/// phases. Sets image_of and the counts.
Result<std::vector<KernelImage>> describe_device_kernels(Compilation& c);

}  // namespace weft

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "driver/model_files.h"
#include "expr/layout.h"
#include "support/cache_folder.h"
#include "support/tensor.h"

namespace weft {

/// The kind of packed constants in a cache folder.
inline constexpr const char* kPackedKind = "packed";
/// Packed constants below this size are not worth a file.
inline constexpr int64_t kPackedFileBytes = int64_t{64} << 10;

/// The constant's elements in the physical order of `layout`, as one flat tensor of `type` (the
/// value's, or float32 of 16-bit floats); what the layout has beyond the shape is zero.
HostTensor pack_constant(const HostTensor& value, const Layout& layout, DType type);

struct PackingJob {
  HostTensor value;
  Layout layout;
  DType type = DType::kF32;  ///< of the packed elements: the value's, or float32 of 16-bit floats
};
struct PackedConstant {
  HostTensor value;            ///< a view of the cache's file where there is a key
  std::optional<Hash128> key;  ///< of kind kPackedKind in the cache folder
};
struct PackingOptions {
  int threads = 1;
  CacheFolder* cache = nullptr;       ///< null: none
  const ModelFiles* files = nullptr;  ///< null: constants are known by their content alone
};

/// pack_constant of all jobs, in parallel; large ones are taken from the cache where it has them,
/// else written to it, and are then views of its files: executables and processes share them.
std::vector<PackedConstant> pack_constants(std::span<const PackingJob> jobs,
                                           const PackingOptions& options);

}  // namespace weft

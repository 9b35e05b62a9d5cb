#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "expr/layout.h"
#include "support/entry_cache.h"
#include "support/tensor.h"

namespace weft {

/// The kind of laid out constants in a cache.
inline constexpr const char* kLaidOutKind = "constant";
/// Laid out constants below this size are not worth a file.
inline constexpr int64_t kLaidOutFileBytes = int64_t{64} << 10;

/// The constant's elements in the physical order of `layout`, as one flat tensor of `type` (the
/// value's, float32 of 16-bit floats, or int16 of signed bytes); what the layout has beyond the
/// shape is zero.
HostTensor lay_out_constant(const HostTensor& value, const Layout& layout, DType type);

struct LayoutJob {
  HostTensor value;
  Layout layout;
  DType type = DType::kF32;  ///< of the laid out elements: see lay_out_constant
};
struct LaidOutConstant {
  HostTensor value;            ///< a view of the cache's entry where there is a key
  std::optional<Hash128> key;  ///< of kind kLaidOutKind in the cache
};
struct LayoutOptions {
  int threads = 1;
  EntryCache* cache = nullptr;  ///< null: none
  /// Names a constant's bytes; empty: their hash does.
  std::function<Hash128(const HostTensor&)> content_key;
};

/// lay_out_constant of all jobs, in parallel; large ones are taken from the cache where it has
/// them, else given to it, and are then views of its entries: executables share them, and processes
/// those of a folder.
std::vector<LaidOutConstant> lay_out_constants(std::span<const LayoutJob> jobs,
                                               const LayoutOptions& options);

}  // namespace weft

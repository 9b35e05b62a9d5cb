#pragma once

#include <optional>

#include "runtime/kernel_image.h"
#include "support/entry_cache.h"

namespace weft {

/// Compiled kernels in a cache, under the hash of what they were made from. Safe for any
/// number of threads; an entry that is damaged is none.
class KernelCache {
 public:
  explicit KernelCache(EntryCache& entries) : entries_(entries) {}

  std::optional<KernelImage> find(const Hash128& key) const;
  void insert(const Hash128& key, const KernelImage& image);

 private:
  EntryCache& entries_;
};

}  // namespace weft

#pragma once

#include <optional>

#include "runtime/kernel_image.h"
#include "support/cache_folder.h"

namespace weft {

/// Compiled kernels in a cache folder, under the hash of what they were made from. Safe for any
/// number of threads; an entry that is damaged is none.
class KernelCache {
 public:
  explicit KernelCache(CacheFolder& folder) : folder_(folder) {}

  std::optional<KernelImage> find(const Hash128& key) const;
  void insert(const Hash128& key, const KernelImage& image);

 private:
  CacheFolder& folder_;
};

}  // namespace weft

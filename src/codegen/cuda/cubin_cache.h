#pragma once

#include <optional>
#include <string>

#include "codegen/cuda/nvrtc.h"
#include "support/entry_cache.h"
#include "support/hash.h"

namespace weft {

/// Compiled CUDA texts in a cache, under the hash of what they were made from. Safe for any
/// number of threads and processes; an entry that is damaged is none.
class CubinCache {
 public:
  explicit CubinCache(EntryCache& entries) : entries_(entries) {}

  std::optional<CudaBinary> find(const Hash128& key) const;
  void insert(const Hash128& key, const CudaBinary& binary) const;

 private:
  EntryCache& entries_;
};

/// Bytes of a binary and back; decode gives nullopt for anything that encode did not write whole.
std::string encode_cuda_binary(const CudaBinary& binary);
std::optional<CudaBinary> decode_cuda_binary(std::string_view bytes);

}  // namespace weft

#pragma once

#include <optional>
#include <string>

#include "codegen/cuda/nvrtc.h"
#include "support/hash.h"

namespace weft {

/// Compiled CUDA texts in a folder, one file each, under the hash of what they were made from. Any
/// number of threads and processes may use one folder: a file appears complete or not at all, and
/// one that is damaged is ignored and replaced. The folder is a help, never a need: what cannot be
/// read or written is compiled again.
class CubinCache {
 public:
  /// `directory` is made when missing, its parents too.
  explicit CubinCache(std::string directory) : directory_(std::move(directory)) {}

  std::optional<CudaBinary> find(const Hash128& key) const;
  void insert(const Hash128& key, const CudaBinary& binary) const;

 private:
  std::string path_of(const Hash128& key) const;
  std::string directory_;
};

/// Bytes of a binary and back; decode gives nullopt for anything that encode did not write whole.
std::string encode_cuda_binary(const CudaBinary& binary);
std::optional<CudaBinary> decode_cuda_binary(std::string_view bytes);

}  // namespace weft

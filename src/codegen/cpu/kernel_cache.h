#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/kernel_image.h"
#include "support/hash.h"

namespace weft {

/// Compiled kernels in a folder, one file each, under the hash of what they were made from. Any
/// number of threads and processes may use one folder: a file appears complete or not at all, and
/// one that is damaged is ignored and replaced. The folder is a help, never a need: what cannot be
/// read or written is told to `warn`, once, and compilation goes on.
class KernelCache {
 public:
  struct Options {
    std::string directory;  ///< made when missing, its parents too
    /// Bound on the files' sizes together; trim() deletes those used longest ago.
    int64_t max_bytes = int64_t{512} << 20;
    std::function<void(const std::string&)> warn;
  };
  explicit KernelCache(Options options);

  std::optional<KernelImage> find(const Hash128& key) const;
  void insert(const Hash128& key, const KernelImage& image);
  /// Deletes the files used longest ago until the rest are within the bound, and what a process
  /// that was killed left unfinished. Returns how many bytes remain.
  int64_t trim();

 private:
  void warn_once(const std::string& message);
  std::string path_of(const Hash128& key) const;

  Options options_;
  std::mutex mutex_;
  bool warned_ = false;
  bool usable_ = true;
};

}  // namespace weft

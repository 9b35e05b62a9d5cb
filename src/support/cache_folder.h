#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "support/entry_cache.h"
#include "support/file_descriptor.h"

namespace weft {

/// Entries of several kinds in a folder, one file `KEY.KIND` each. Any number of threads and
/// processes may use one folder: a file appears complete or not at all, and one that is damaged is
/// ignored and replaced. The folder is a help, never a need: what cannot be read or written is told
/// to `warn`, once, and the caller goes on without.
///
/// A file holds a checksum of its bytes and the time at which it was complete, which is also its
/// time of modification. Small entries are checked whenever they are found; larger ones when that
/// time has changed (somebody wrote to the file or copied it) and under `verify`, so that weights
/// are not read before they are used.
///
/// Checksums find damage, not intent, and entries hold machine code. So a folder serves only if it
/// (a symbolic link: what that leads to) belongs to this user or root and nobody else may write to
/// it; otherwise it is told to `warn` and not used. Entries that others own or may write to are
/// ignored and replaced. Folders above it may be open to all, as /tmp is: the folder is opened
/// once.
class CacheFolder : public EntryCache {
 public:
  struct Options {
    std::string directory;  ///< made when missing, for its owner alone; its parents too
    /// Bound on the files' sizes together; trim() deletes those used longest ago.
    int64_t max_bytes = int64_t{4} << 30;
    bool verify = false;  ///< check large entries too, each time
    std::function<void(const std::string&)> warn;
  };
  explicit CacheFolder(Options options);

  /// The bytes of an entry, at an address aligned to 64: of a large one the mapped file, which all
  /// that map it share.
  std::optional<MappedFile> find(const Hash128& key, std::string_view kind) const override;
  /// Writes the parts one after the other. False when that failed.
  bool insert(const Hash128& key, std::string_view kind,
              std::span<const std::span<const std::byte>> parts) override;
  /// A view of the file, which all that map it share.
  std::optional<MappedFile> share(const Hash128& key, std::string_view kind,
                                  const MappedFile& made) override;
  bool is_on_disk() const override { return true; }
  /// Deletes the files used longest ago until the rest are within the bound, and what a process
  /// that was killed left unfinished. Returns how many bytes remain.
  int64_t trim() override;

 private:
  void warn_once(const std::string& message);

  Options options_;
  FileDescriptor folder_;  ///< none: the folder is not used
  std::mutex mutex_;
  bool warned_ = false;
};

}  // namespace weft

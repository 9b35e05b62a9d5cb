#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "support/hash.h"
#include "support/mapped_file.h"

namespace weft {

/// Entries of several kinds, each under a key that stands for all that it was made from. A help,
/// never a need: what cannot be found or kept is made again. Any number of threads may use one.
class EntryCache {
 public:
  EntryCache() = default;
  EntryCache(const EntryCache&) = delete;
  EntryCache& operator=(const EntryCache&) = delete;
  virtual ~EntryCache() = default;

  /// The bytes of an entry, at an address aligned to 64 where insert() made it.
  virtual std::optional<MappedFile> find(const Hash128& key, std::string_view kind) const = 0;
  /// Keeps the parts one after the other. False when that failed.
  virtual bool insert(const Hash128& key, std::string_view kind,
                      std::span<const std::span<const std::byte>> parts) = 0;
  /// Keeps large bytes, for all that read them: what find() gives of them. nullopt when that
  /// failed.
  virtual std::optional<MappedFile> share(const Hash128& key, std::string_view kind,
                                          const MappedFile& made) = 0;
  /// Whether entries are files, so that what they were made from need not stay in memory.
  virtual bool is_on_disk() const = 0;
  /// Keeps to its bound. Returns how many bytes remain.
  virtual int64_t trim() = 0;
};

}  // namespace weft

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "support/entry_cache.h"

namespace weft {

/// The entries of a process: what compilations of one model have in common. Shared bytes live as
/// long as somebody reads them; others are copied and kept.
class CacheMemory : public EntryCache {
 public:
  /// `max_bytes`: of the copies together; trim() forgets them where they are more.
  explicit CacheMemory(int64_t max_bytes = int64_t{64} << 20) : max_bytes_(max_bytes) {}

  std::optional<MappedFile> find(const Hash128& key, std::string_view kind) const override;
  bool insert(const Hash128& key, std::string_view kind,
              std::span<const std::span<const std::byte>> parts) override;
  std::optional<MappedFile> share(const Hash128& key, std::string_view kind,
                                  const MappedFile& made) override;
  bool is_on_disk() const override { return false; }
  int64_t trim() override;

 private:
  struct Entry {
    std::shared_ptr<const void> kept;  ///< null: `shared` by those who read it
    std::weak_ptr<const void> shared;
    std::span<const std::byte> bytes;
  };
  using Key = std::pair<Hash128, std::string>;

  int64_t max_bytes_;
  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
  int64_t kept_bytes_ = 0;
};

}  // namespace weft

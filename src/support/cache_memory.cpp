#include "support/cache_memory.h"

#include <cstring>
#include <utility>

#include "support/tensor.h"

namespace weft {

std::optional<MappedFile> CacheMemory::find(const Hash128& key, std::string_view kind) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(Key{key, kind});
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = found->second;
  std::shared_ptr<const void> owner = entry.kept != nullptr ? entry.kept : entry.shared.lock();
  if (owner == nullptr) return std::nullopt;
  return MappedFile{std::move(owner), entry.bytes};
}

bool CacheMemory::insert(const Hash128& key, std::string_view kind,
                         std::span<const std::span<const std::byte>> parts) {
  size_t size = 0;
  for (const auto part : parts) size += part.size();
  HostTensor copy(DType::kU8, {static_cast<int64_t>(size)});
  std::byte* to = copy.mutable_raw();
  for (const auto part : parts) {
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  const std::lock_guard lock(mutex_);
  const bool is_new =
      entries_.try_emplace(Key{key, kind}, Entry{copy.owner(), {}, {copy.raw(), size}}).second;
  if (is_new) kept_bytes_ += static_cast<int64_t>(size);
  return true;
}

std::optional<MappedFile> CacheMemory::share(const Hash128& key, std::string_view kind,
                                             const MappedFile& made) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[Key{key, kind}];
  // Another thread may have made the same meanwhile.
  if (std::shared_ptr<const void> owner = entry.shared.lock())
    return MappedFile{std::move(owner), entry.bytes};
  entry.shared = made.owner;
  entry.bytes = made.bytes;
  return made;
}

int64_t CacheMemory::trim() {
  const std::lock_guard lock(mutex_);
  const bool is_full = kept_bytes_ > max_bytes_;
  std::erase_if(entries_, [&](const auto& entry) {
    return entry.second.kept != nullptr ? is_full : entry.second.shared.expired();
  });
  if (is_full) kept_bytes_ = 0;
  return kept_bytes_;
}

}  // namespace weft

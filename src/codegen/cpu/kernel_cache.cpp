#include "codegen/cpu/kernel_cache.h"

#include <cstring>
#include <span>

namespace weft {
namespace {

constexpr const char* kKind = "kernel";
/// Of one image: far beyond any kernel, so that a damaged entry asks for little memory.
constexpr size_t kMaxPhases = 1 << 16;

/// What stands at the start of an entry; the image's entry points and bytes follow.
struct EntryHeader {
  uint64_t image_hash;
  uint64_t entries;
};

}  // namespace

std::optional<KernelImage> KernelCache::find(const Hash128& key) const {
  const std::optional<MappedFile> file = entries_.find(key, kKind);
  EntryHeader header;
  if (!file || file->bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, file->bytes.data(), sizeof header);
  const auto rest = file->bytes.subspan(sizeof header);
  const size_t entry_bytes = header.entries * sizeof(uint64_t);
  if (header.entries > kMaxPhases || rest.size() < entry_bytes) return std::nullopt;
  KernelImage image;
  image.phase_entries.resize(header.entries);
  if (entry_bytes != 0) std::memcpy(image.phase_entries.data(), rest.data(), entry_bytes);
  const auto code = rest.subspan(entry_bytes);
  image.bytes.assign(code.begin(), code.end());
  image.hash = header.image_hash;
  if (!verify_kernel_image(image).ok()) return std::nullopt;
  return image;
}

void KernelCache::insert(const Hash128& key, const KernelImage& image) {
  const EntryHeader header{image.hash, image.phase_entries.size()};
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&header, 1)),
                                              std::as_bytes(std::span(image.phase_entries)),
                                              image.bytes};
  entries_.insert(key, kKind, parts);
}

}  // namespace weft

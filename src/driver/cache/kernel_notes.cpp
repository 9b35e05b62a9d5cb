#include "driver/cache/kernel_notes.h"

#include <cstring>
#include <span>

#include "driver/cache/source_digest.h"
#include "kernel/prefetch_rows.h"
#include "kernel/stream_outputs.h"
#include "lower/lowering_key.h"

namespace weft {

namespace {

constexpr const char* kKind = "lowered";

}  // namespace

Hash128 KernelNotes::key(const TileProgram& program, const ScopeAnalysis& scopes,
                         const KernelFunction& outline, const Target& target) {
  Hasher hasher;
  hasher.add_text(source_digest());
  hasher.add_text(print(target));
  const Hash128 lowered = lowering_key(program, scopes, target);
  hasher.add_value(lowered.high);
  hasher.add_value(lowered.low);
  hasher.add_value(is_prefetched(outline, target) ? 1 : 0);
  for (const bool streamed : streamed_buffers(outline, target)) hasher.add_value(streamed ? 1 : 0);
  return hasher.digest128();
}

std::optional<NotedCode> KernelNotes::find(const Hash128& key) const {
  const std::optional<MappedFile> note = entries_.find(key, kKind);
  NotedCode out;
  constexpr size_t kKeyBytes = sizeof out.code.key;
  if (!note || note->bytes.size() < kKeyBytes ||
      (note->bytes.size() - kKeyBytes) % sizeof(int64_t) != 0)
    return std::nullopt;
  std::memcpy(&out.code.key, note->bytes.data(), kKeyBytes);
  std::optional<KernelImage> image = KernelCache(entries_).find(out.code.key);
  if (!image) return std::nullopt;
  out.code.image = std::move(*image);
  out.literals.resize((note->bytes.size() - kKeyBytes) / sizeof(int64_t));
  std::memcpy(out.literals.data(), note->bytes.data() + kKeyBytes, note->bytes.size() - kKeyBytes);
  return out;
}

void KernelNotes::insert(const Hash128& key, const Hash128& code,
                         std::span<const int64_t> literals) {
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&code, 1)),
                                              std::as_bytes(literals)};
  entries_.insert(key, kKind, parts);
}

}  // namespace weft

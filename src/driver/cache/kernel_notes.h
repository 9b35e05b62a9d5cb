#pragma once

#include <optional>
#include <span>
#include <vector>

#include "codegen/cpu/compile_kernels.h"
#include "plan/fusion_plan.h"
#include "support/entry_cache.h"

namespace weft {

/// Code that a tile program ended in, and the numbers of its own that its launches bring along
/// (kernel/share_literals.h).
struct NotedCode {
  KnownCode code;
  std::vector<int64_t> literals;
};

/// Notes in a cache of which code a tile program ended in, so that it need not be lowered to
/// be found. Kind `lowered`: 16 bytes, the key of an entry of kind `kernel`; then 8 bytes a number.
class KernelNotes {
 public:
  explicit KernelNotes(EntryCache& entries) : entries_(entries) {}

  /// Of a program lowered and rewritten for `target`: all that its instructions depend on, the
  /// sources of the compiler included. `outline` has its buffers.
  static Hash128 key(const TileProgram& program, const ScopeAnalysis& scopes,
                     const KernelFunction& outline, const Target& target);

  std::optional<NotedCode> find(const Hash128& key) const;
  void insert(const Hash128& key, const Hash128& code, std::span<const int64_t> literals);

 private:
  EntryCache& entries_;
};

}  // namespace weft

#pragma once

#include <optional>

#include "codegen/cpu/compile_kernels.h"
#include "plan/fusion_plan.h"
#include "support/entry_cache.h"

namespace weft {

/// Notes in a cache of which code a tile program ended in, so that it need not be lowered to
/// be found. Kind `lowered`: 16 bytes, the key of an entry of kind `kernel`.
class KernelNotes {
 public:
  explicit KernelNotes(EntryCache& entries) : entries_(entries) {}

  /// Of a program lowered and rewritten for `target`: all that its instructions depend on, the
  /// sources of the compiler included. `outline` has its buffers.
  static Hash128 key(const TileProgram& program, const ScopeAnalysis& scopes,
                     const KernelFunction& outline, const Target& target);

  std::optional<KnownCode> find(const Hash128& key) const;
  void insert(const Hash128& key, const Hash128& code);

 private:
  EntryCache& entries_;
};

}  // namespace weft

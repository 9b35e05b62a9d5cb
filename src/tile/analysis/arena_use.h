#pragma once

#include "tile/scope_analysis.h"

namespace weft {

/// Bytes of the block's arena (a GPU's shared memory, a CPU's scratch), of values and carries
/// alone.
struct ArenaUse {
  int64_t values = 0;
  int64_t requested = 0;  ///< were each value given bytes of its own
  int64_t allocated = 0;  ///< with those shared that do not live at once
  int64_t least = 0;      ///< the most that lives at once: no placing takes less
};

/// How well the arena is shared: FusionStitching's ratio of what is allocated to what is requested
/// (2018, table 3; 2019, table 4). `scopes` are those that derive_scopes gave for the program.
ArenaUse arena_use(const TileProgram& program, const ScopeAnalysis& scopes);

}  // namespace weft

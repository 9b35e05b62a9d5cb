#pragma once

#include <cstdint>
#include <vector>

#include "tile/scope_analysis.h"
#include "tile/tile_program.h"

namespace weft {

/// What blocks keep on chip from nest to nest of a program.
struct BoxReuse {
  int64_t hits = 0;         ///< reads that find what an earlier nest of their block had
  int64_t evictions = 0;    ///< reads that could, and ask memory again
  int64_t kept_bytes = 0;   ///< of a block's memory, of all that is kept
  int64_t saved_bytes = 0;  ///< that hits do not ask of memory, by all blocks
  std::vector<int64_t> saved_by_nest;
  std::vector<TileSymbolId> given_up;  ///< by eviction: the parameter, or what the view shows
};

/// A block's memory as a cache that the program manages (Souffle §6.5): where a block loads or
/// stores a box in one nest and reads the same box in a later one, the later one reads it where the
/// block kept it. Boxes are the same where nests run the same iterations on the same blocks and
/// index expressions agree; no name decides.
///     grid c in 96 { s[c] = sum[p] x[c,p]; }  …  grid k in 96 { y[k,p] = x[k,p]*g[k]; }
///     ->  grid c { v[c,p] = x[c,p]; x_kept[c,p] = v[c,p]; s[c] = sum[p] v[c,p]; }  …
///         grid k { y[k,p] = x_kept[k,p]*g[k]; }
/// `room`: bytes of a block's memory for all that a nest needs and all that is kept across it.
/// Where that is short, what is needed last is given up first, and read from memory again.
///
/// Nests between the same two barriers run side by side, on other blocks, and share nothing. Loads
/// ahead of their loops, gathers and what stands under conditions stay as they are. Requires: a
/// GPU's program whose scopes can be derived. Establishes: the same values in all outputs. Returns
/// whether the program changed.
Result<bool> reuse_boxes(TileProgram& program, int64_t room);

/// What a program keeps, as `reuse_boxes` left it.
BoxReuse reuse_of(const TileProgram& program, const ScopeAnalysis& scopes);

}  // namespace weft

#pragma once

#include "tile/tile_program.h"

namespace weft {

/// In the steps of a recurrence, nests that the same blocks run become one where there are more
/// iterations than blocks: a block then asks for what all of them load at once, and hands on what
/// it makes itself in registers or its own memory.
///     seq t { grid a { p = sum[j] W[a,j]*h[j]; P[a] = p; }
///             grid b { q = sum[j] V[b,j]*g[j]; R[b] = P[b] + q; } … }
///     ->  seq t { grid a { p = …; q = …; R[a] = p + q; } … }
/// A nest goes to an earlier one if nothing between them makes what it reads or meets what it
/// stores, and if it reads of what the earlier one stores no element but its own. Statements stand
/// in the order of what they wait for: loads first.
///
/// Requires: a GPU's program; nests of statements whose iteration b block b can run
/// (tile/analysis/same_blocks.h) are merged, others stay. Establishes: the same values in all
/// outputs. Returns whether the program changed.
bool merge_nests(TileProgram& program);

}  // namespace weft

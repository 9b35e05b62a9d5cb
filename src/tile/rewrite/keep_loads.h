#pragma once

#include <cstddef>

#include "tile/tile_program.h"

namespace weft {

/// Makes statements at the head of the grid loop of the loads that do not depend on its dimensions
/// from `first` on, so that a block of several iterations makes them once (docs/tile_program.md,
/// Traffic): in registers where the warps hold different elements, else in block memory, filled by
/// all threads.
///     grid i in 4096 { …; y[i,j] = x[i,j] * w[j] }  ->  grid i { w_v[j] = w[j]; …; y[i,j] = x[i,j]
///     * w_v[j] }
///
/// Of several blocks of a `cluster`, loads that depend on no dimension of the grid are asked for by
/// all of them once: each makes a part, in its shared memory, and reads those of the others.
///     -> grid i { seq c in 1024 step 256 by cluster { w_c[c] = w[c]; } w_v[j] = w_c[j]; … }
///
/// Requires: a GPU's program of one grid loop, places on the statements that read; of clusters a
/// number of blocks that they divide. Establishes: the same values. Returns whether the program
/// changed.
bool keep_loads(TileProgram& program, size_t first, int64_t cluster);

/// How many of `elements` each block of a cluster makes, whole accesses; 0 where these are too few
/// for all of its blocks.
int64_t part_of_cluster(int64_t elements, int64_t cluster);

}  // namespace weft

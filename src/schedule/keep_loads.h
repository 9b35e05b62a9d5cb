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
/// Requires: a GPU's program of one grid loop, places on the statements that read. Establishes: the
/// same values. Returns whether the program changed.
bool keep_loads(TileProgram& program, size_t first);

}  // namespace weft

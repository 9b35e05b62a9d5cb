#pragma once

#include "kernel/kernel_function.h"
#include "target/target.h"
#include "tile/scopes.h"
#include "tile/tile_program.h"

namespace weft {

/// Tile program → kernel function for a CPU. Makes no choice: places become register tiles of
/// scalars and vectors, loops become loops, index sets are split into interior and border, values
/// of scratch scope get per-thread buffers, a barrier becomes a phase boundary.
///
/// Kernel buffers: the program's parameters in order, then workspaces (grid-scope values), then
/// scratch. Work items of a phase: the iterations of its nest of grid loops, outermost slowest;
/// statements between two grid loops run once per outer iteration and thread.
Result<KernelFunction> lower_to_kernel(const TileProgram& program, const ScopeAnalysis& scopes,
                                       const Target& target);
/// The same with the scopes derived here.
Result<KernelFunction> lower_to_kernel(const TileProgram& program, const Target& target);

}  // namespace weft

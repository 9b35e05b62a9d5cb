#pragma once

#include "kernel/kernel_function.h"
#include "lower/core/open_size.h"
#include "target/target.h"
#include "tile/scope_analysis.h"
#include "tile/tile_program.h"

namespace weft {

/// Tile program → kernel function for a CPU. Makes no choice: places become register tiles of
/// scalars and vectors, loops become loops, index sets are split into interior and border, values
/// of scratch scope get per-thread buffers, a barrier between nests becomes a phase boundary, and
/// one inside a nest takes the nest apart: the thread's items up to it, the barrier, and on from
/// it.
///
/// Kernel buffers: the program's parameters in order, then workspaces (grid-scope values), then
/// scratch. Work items of a phase: the iterations of its nest of grid loops, outermost slowest;
/// statements between two grid loops run once per outer iteration and thread.
///
/// Sizes that the program leaves open are launch arguments of a CPU's kernel, in the order of their
/// variables: no instruction depends on what they will be, so programs that differ in the values of
/// open sizes alone have one kernel. Its buffers' elements and its work items are then unknown (0
/// and 1); kernel_outline knows them.
Result<KernelFunction> lower_to_kernel(const TileProgram& program, const ScopeAnalysis& scopes,
                                       const Target& target);
/// The same with the scopes derived here.
Result<KernelFunction> lower_to_kernel(const TileProgram& program, const Target& target);

/// Buffers, scratch and work items of the kernel that lower_to_kernel makes, without instructions.
/// Requires: every size is bound.
Result<KernelFunction> kernel_outline(const TileProgram& program, const ScopeAnalysis& scopes,
                                      const Target& target);

}  // namespace weft

#pragma once

#include "lower/core/nests.h"
#include "lower/gpu/gpu_writer.h"

namespace weft::lowering {

/// The number of blocks that the program states, else one for each item of the largest phase.
int64_t block_count(const GpuWriter& w);

/// Registers and shared memory hold one iteration of a nest across a barrier inside it. Blocks of a
/// cluster have the iterations of its loops, side by side.
Status check_one_iteration_a_block(const GpuWriter& w);

/// All phases of the program. The items of a phase's nests stand one after another in one list;
/// blocks of at most one item each run it without a loop. A recurrence is one phase of the kernel,
/// whose blocks go through its iterations together, with barriers between its own phases. So is a
/// program whose blocks keep values from nest to nest, or load ahead of barriers.
void emit_gpu_phases(GpuWriter& w);

/// A barrier of the grid before a child of the body at hand: what registers and shared memory hold
/// survives it, as the block goes through one item only.
void emit_grid_barrier_before(GpuWriter& w, int32_t child);

}  // namespace weft::lowering

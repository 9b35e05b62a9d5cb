#pragma once

#include "lower/core/nests.h"
#include "lower/gpu/gpu_writer.h"

namespace weft::lowering {

/// The number of blocks that the program states, else one for each item of the largest phase.
int64_t block_count(const GpuWriter& w);

/// Registers and shared memory hold one iteration of a nest across a barrier inside it. Blocks of a
/// cluster have the iterations of its loops, side by side.
Status check_one_iteration_a_block(const GpuWriter& w);

/// The items of the nests one after another in one list. Blocks of at most one item each run it
/// without a loop.
void emit_gpu_phase(GpuWriter& w, const std::vector<Nest>& nests);

/// A barrier of the grid before a child of the body at hand: what registers and shared memory hold
/// survives it, as the block goes through one item only.
void emit_grid_barrier_before(GpuWriter& w, int32_t child);

}  // namespace weft::lowering

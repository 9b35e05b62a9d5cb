#pragma once

#include <string_view>

#include "target/target.h"
#include "tile/scope_analysis.h"

namespace weft {

/// What a built kernel of a GPU is predicted to take, and by what.
struct GpuLatency {
  enum class Bound : uint8_t { kInstructions, kMemory };
  double microseconds = 0;
  double waves = 0;        ///< N_wave: the kernel's blocks over those that the device holds at once
  double warp_cycles = 0;  ///< L_warp: of a warp from its begin to its end, others beside it
  int64_t warps_of_sm = 0;   ///< at once
  int64_t registers = 0;     ///< of a thread, by lifetimes
  int64_t shared_bytes = 0;  ///< of a block, by lifetimes
  double memory_us = 0;      ///< that the bytes take
  Bound bound = Bound::kInstructions;
};
/// What blocks save that load ahead of barriers (tile/analysis/loads_ahead.h): what the copies take
/// from the second-level cache, and memory's latency where the loop waits for nothing else, as far
/// as a barrier takes so long. Of nests side by side what all of them save.
double hidden_by_barriers_us(const TileProgram& program, const ScopeAnalysis& scopes,
                             const Target& target);

/// What a step of the program's recurrence takes (Souffle §6.3): of its phases' warps the longest,
/// or what all of them take of the device's blocks, and what the barriers wait; nests whose blocks
/// keep values run one after another. Never below the time of `bytes`, which a step asks for.
/// Requires: a verified program of a GPU with one recurrence, of known numbers of blocks.
double step_latency_us(const TileProgram& program, const ScopeAnalysis& scopes, int64_t bytes,
                       const Target& target);

/// What it takes until the program's blocks have met, of which a launch has `blocks`: those of one
/// cluster, or those of the grid.
double meeting_us(const TileProgram& program, int64_t blocks, const Target& target);

std::string_view bound_name(GpuLatency::Bound bound);

/// The evaluator `latency` of GPUs (FusionStitching 2021 §4.3):
///
///     L = N_wave L_warp,  N_wave = N_warp / occupancy,  L_warp = sum of instructions x CPI
///
/// Instructions are those of the tile program's statements on one warp, loops by their trips. The
/// CPI of a class is the target's, for all warps that an SM holds at once, and no less than what a
/// dependent instruction waits. Loads wait for memory, exchanges over warps for the block.
/// Occupancy follows from the registers and the shared memory that live at once. Never below the
/// time of `bytes`, read and written, at the bandwidth curve; launch and barriers of the grid come
/// to it, as to every estimate (cost/estimate.h), less what these hide.
///
/// Requires: a verified program of a GPU. Sizes that are not bound count as 1.
GpuLatency gpu_latency(const TileProgram& program, const ScopeAnalysis& scopes, int64_t bytes,
                       const Target& target);

}  // namespace weft

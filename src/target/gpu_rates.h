#pragma once

namespace weft {

// What multiprocessors of all GPUs are taken to have in common, beside what a description says of
// one (target/target.h); fitted to products and chains on an H100 (bench/results/gpu-h100.md). In
// cycles where nothing else is said.

/// Of shared memory and of the first-level cache in a cycle.
inline constexpr double kBanksBytes = 128;
/// Threads of an SM that keep its share of the memory bandwidth busy.
inline constexpr double kBusyThreads = 512;
/// Of the peaks of matrix units and plain cores, what their instructions reach.
inline constexpr double kUnitShare = 0.55, kCoreShare = 0.8;
/// Of one warp, which waits for what it has just asked for: each depth of its matrix units and each
/// of their instructions, in a loop of one product.
inline constexpr double kStepOfUnit = 8, kInstructionOfUnit = 5.2;
/// Of that peak, what warp groups reach that multiply out of shared memory; and what a step of
/// theirs takes beside its arithmetic where it waits for its sums.
inline constexpr double kGroupShare = 1, kStepOfGroup = 170;
/// The same on plain cores: each element of the depth, and of it each row of a thread's results.
inline constexpr double kCoreDepth = 0.5, kCoreResult = 2.1;
/// Of shared memory, for a core's element of the left operand and its vector of the right one.
inline constexpr double kLeftRead = 0.6, kRightRead = 3;
/// Of a barrier of one block an SM: what it takes longer for each further one.
inline constexpr double kBlockMeets = 0.14;

}  // namespace weft

#pragma once

#include "target/target.h"
#include "tile/scope_analysis.h"

namespace weft {

/// What a block of a GPU's program takes of an SM.
struct Residency {
  int64_t threads = 0;
  int64_t registers = 0;      ///< of a thread: values alive at once, addresses
  int64_t shared_bytes = 0;   ///< the block's arena, and where warps leave parts of reductions
  int64_t blocks_per_sm = 0;  ///< that an SM holds at once; 0 where one alone does not fit
};
/// Estimated before there is code.
Residency residency(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target);

/// Blocks of an SM that a program's code is bounded for, so that it leaves an SM the residency that
/// its price takes for granted (AStitch's launch configuration). At first as many as have a
/// thousand threads, whose registers are then 64 each; fewer where the estimated registers or
/// shared memory leave room for fewer, or the grid has no more: all that this leaves of an SM's
/// registers is the code's (registers_for_residency). A program whose blocks wait for each other
/// says itself how many (TileProgram::per_sm).
int64_t bounded_blocks_per_sm(const TileProgram& program, const ScopeAnalysis& scopes,
                              const Target& target);

/// Whether a kernel's code is bounded so: where memory bounds it, and of products where warp groups
/// multiply, whose sums leave room for what follows them. What other products need is known to the
/// models of their tiles.
bool is_bounded(const TileProgram& program, bool is_compute);

/// Whether the program fits the target, on a GPU with as many blocks on an SM as it asks for
/// (TileProgram::per_sm); otherwise what overflows, by how much (rule 4).
Decision fits(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target);

}  // namespace weft

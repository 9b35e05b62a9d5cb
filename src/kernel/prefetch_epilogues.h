#pragma once

#include "kernel/kernel_function.h"
#include "target/target.h"

namespace weft {

/// Asks for what a tile's epilogue loads before the loop that makes its sums:
///     for tile { sums = for step { … }; store y[tile], sums + x[tile] }
///  -> for tile { prefetch x[tile]; sums = for step { … }; store y[tile], sums + x[tile] }
/// Each line of such an operand is read once, in rows far apart, which no processor foresees. The
/// addresses go in front of the loop with it.
///
/// Only whole vectors of inputs larger than the first cache that move with the tile.
/// Requires: a verified kernel of a CPU. Returns whether it changed.
bool prefetch_epilogues(KernelFunction& kernel, const Target& target);

}  // namespace weft

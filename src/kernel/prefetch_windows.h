#pragma once

#include "kernel/kernel_function.h"
#include "target/target.h"

namespace weft {

/// Asks for the row of an image that the windows of the next row of tiles take in, while those of
/// the present one are summed:
///     for row { for tile { prefetch x[row + 1 + last tap, tile]; sums = for tap { … x[row + tap,
///     tile] … } … } }
/// Where a window has few channels (a group's), each pixel is a line of its own, far from the next,
/// which no processor foresees.
///
/// Only inputs larger than an eighth of the second cache, a few lines a tile, which do not lie one
/// behind the other.
/// Requires: a verified kernel of a CPU. Returns whether it changed.
bool prefetch_windows(KernelFunction& kernel, const Target& target);

}  // namespace weft

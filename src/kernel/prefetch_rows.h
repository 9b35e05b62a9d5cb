#pragma once

#include "kernel/kernel_function.h"
#include "target/target.h"

namespace weft {

/// Asks for cache lines ahead of time in loops over rows that are swept several times. Where a loop
/// holds sweeps (innermost loops of one range side by side, at least two of them),
/// - the last sweep asks for what the first one will load in the next row,
/// - the sweep before the last asks, to write them, for the lines that the last one stores:
/// arithmetic then goes on while the lines come. The hardware's own prefetchers start anew in every
/// row. A loop that carries values makes one sum of its sweeps (a window's taps) and is no loop
/// over rows.
///
/// Only when the kernel's tensors are larger than a quarter of the second-level caches: what is
/// near needs no request. Requires: a verified kernel of a CPU. Returns whether it changed.
bool prefetch_rows(KernelFunction& kernel, const Target& target);
/// Whether the kernel's tensors are that large; its instructions do not matter.
bool is_prefetched(const KernelFunction& kernel, const Target& target);

}  // namespace weft

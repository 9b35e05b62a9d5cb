#pragma once

#include "kernel/kernel_function.h"
#include "target/target.h"

namespace weft {

/// For --fast-math: float32 exponentials of vectors by the recipe that a max-subtracted exponent
/// takes (`exponent_nonpositive`), which with AVX-512 holds for every argument, overflow,
/// infinities and NaN included. Relative error 2.5e-7 + 8e-8 |x|, where the general one is within 4
/// units in the last place. Without AVX-512 nothing changes.
///
/// Requires: a verified kernel of a CPU. Returns how many exponentials it shortened.
int shorten_exponentials(KernelFunction& kernel, const Target& target);

}  // namespace weft

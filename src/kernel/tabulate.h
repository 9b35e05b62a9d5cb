#pragma once

#include "kernel/kernel_function.h"
#include "target/target.h"

namespace weft {

/// What element-wise instructions make of four bits of a vector is looked up in a table of 16 that
/// stays in a register, where the target has an instruction for that and the chain is longer:
///     %2: i32x16 = apply and %1, %c15
///     %3: f32x16 = apply convert %2           ->  %4: f32x16 = look_up %1 [-8.0, -7.0, ...]
///     %4: f32x16 = apply sub %3, %c8
/// The values are those that the chain makes, bit for bit; chains that make a NaN stay.
///
/// Requires: a verified kernel of a CPU. Establishes the same. Returns how many chains it replaced.
int tabulate(KernelFunction& kernel, const Target& target);

}  // namespace weft

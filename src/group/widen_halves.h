#pragma once

#include "group/cut_group.h"
#include "target/target.h"

namespace weft {

/// Tensors of 16-bit floats that a group makes and reads itself become float32, and arithmetic on
/// 16-bit floats becomes float32 arithmetic: no operation rounds its result, only what reaches
/// memory, what a contraction reads (matrix units take 16 bits) and what the model converts is
/// rounded. Neither CPUs nor most units of GPUs compute in 16 bits; rounding after every operation
/// would take more time than the operations do, and digits with it.
///
/// On a CPU, which multiplies float32 only, that holds for operands of contractions, too, and for
/// constants that they use often: packed as float32 once instead of converted each time. What a
/// processor multiplies in bfloat16 stays.
void widen_halves(GroupView* view, const Target& target);

/// Whether some expression computes with 16-bit floats; else nothing is widened.
bool holds_halves(const TensorProgram& program);

}  // namespace weft

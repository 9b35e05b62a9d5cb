#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Movement at the end of the program (Souffle §5.2 seen from the other side): an output that only
/// rearranges the elements of an intermediate which nothing else reads takes that intermediate's
/// expression over, under the map of its read.
///     t[d0, d1] = exp(x[d0, d1]); y[d0, d1] = t[d1, d0]  ->  y[d0, d1] = exp(x[d1, d0])
/// Requires: fold_movement ran. Maps that would leave reads with floordiv or mod are left alone.
bool sink_movement(TensorProgram& program);

}  // namespace weft

#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Marks, in both, the axes of expressions whose extents differ between two bindings of one
/// program's dimensions (TensorExpr::open), regions included.
/// Returns whether the two are the same but for numbers; where they are not, neither is changed.
///     here: y[d0:160] = …, there: y[d0:320] = …   ->   y's axis 0 is open
bool mark_open_axes(TensorProgram& here, TensorProgram& there);

}  // namespace weft

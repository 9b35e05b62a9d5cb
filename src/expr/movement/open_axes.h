#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Marks, in both, the axes of expressions whose extents differ between two bindings of one
/// program's dimensions (TensorExpr::open), regions included.
/// Returns whether the two are the same but for numbers; where they are not, neither is changed.
///     here: y[d0:160] = …, there: y[d0:320] = …   ->   y's axis 0 is open
bool mark_open_axes(TensorProgram& here, TensorProgram& there);

/// Whether an expression is the same at both bindings but for numbers: it reads the same tensors by
/// the same variables, and has an axis of one element at both or at neither. mark_open_axes does
/// not look at bodies: where a size that one binding has is 0 or 1, some of them become simpler,
/// and a kernel of these is another one.
bool differs_in_numbers_only(const TensorExpr& here, const TensorExpr& there);

}  // namespace weft

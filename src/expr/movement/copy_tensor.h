#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// An expression that gives `to` the elements of `from`, which has its shape: to[i] = from[i].
/// Origins and open axes are those of the expression that makes `from`, if one does.
TensorExpr copy_of(const TensorProgram& program, TensorId from, TensorId to);
/// Adds that expression, behind the step that makes `from`; before all others where none does.
void add_copy(TensorProgram& program, TensorId from, TensorId to);

}  // namespace weft

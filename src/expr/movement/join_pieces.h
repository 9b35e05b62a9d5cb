#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// What stands for an expression's body where a choice between two reads of one tensor that lie as
/// far apart as its axis is long becomes one read that comes round: of the two at most one is
/// inside, whatever the condition.
///     i < 53 ? x[i + 3] : x[i - 53]   ->   x[(i + 3) mod 56]          of 56 elements, a roll
ScalarRef join_pieces(const TensorExpr& expr, const TensorProgram& program);

}  // namespace weft

#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Scalars of reductions that keep a position (argmax, argmin) as two reductions: the best value,
/// and the first or last position that holds it. NaN is the best.
bool keeps_position(const TensorExpr& e);
Combiner best_of(const TensorExpr& e);
Combiner pick_of(const TensorExpr& e);
ScalarRef no_position(const TensorExpr& e);

/// Equality under which NaN equals itself.
ScalarRef same_value(const ScalarRef& a, const ScalarRef& b);

/// The position kept where a row is passed in ascending order: `here` where x is better than what
/// was best before it, `old` where it is not. Of equals the first (or last) stays.
ScalarRef next_position(const TensorExpr& e, const ScalarRef& x, const ScalarRef& best,
                        const ScalarRef& old, const ScalarRef& here);

}  // namespace weft

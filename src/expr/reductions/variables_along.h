#pragma once

#include <vector>

#include "expr/tensor_program.h"

namespace weft {

/// By expression: the variable that runs along the axis which `root` has as its variable `axis`,
/// or -1. Where the root is no contraction, so do reductions of a tensor from outside that what
/// lies along the axis reads beside them: m = max[n] x[n] of x[n] - m. Error (kUnsupported): an
/// expression that meets the axis twice, or not element by element.
Result<std::vector<int>> variables_along(const TensorProgram& program, ExprId root, int axis);

}  // namespace weft

#pragma once

#include <vector>

#include "expr/tensor_program.h"

namespace weft {

/// By expression: the variable that runs along the axis which `root` has as its variable `axis`,
/// or -1. Error (kUnsupported): an expression that meets the axis twice, or not element by element.
Result<std::vector<int>> variables_along(const TensorProgram& program, ExprId root, int axis);

}  // namespace weft

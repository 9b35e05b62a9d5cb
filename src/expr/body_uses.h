#pragma once

#include "expr/scalar_expr.h"

namespace weft {

/// Whether an expression depends on a variable: in an index of a read, or as a value.
bool body_uses(const ScalarRef& s, int var);

}  // namespace weft

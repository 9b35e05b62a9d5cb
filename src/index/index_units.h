#pragma once

#include <functional>

#include "index/index_expr.h"

namespace weft {

/// A number of which an index is a multiple, by what its variables are multiples of.
int64_t unit_of(const IndexExpr& e, const std::function<int64_t(int)>& unit_of_variable);

}  // namespace weft

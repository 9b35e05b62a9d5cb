#pragma once

#include <optional>

#include "expr/scalar_expr.h"

namespace weft {

/// A read of a tensor where a condition on indices holds, else zero: a window's.
struct PaddedRead {
  const Scalar* read = nullptr;
  ScalarRef condition;  ///< null: everywhere
};

/// Nothing where a value is anything else.
std::optional<PaddedRead> padded_read(const ScalarRef& value);

}  // namespace weft

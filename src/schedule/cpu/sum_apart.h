#pragma once

#include <functional>
#include <optional>

#include "expr/scalar_expr.h"

namespace weft {

/// A product that is summed up along some axes, with what is the same along them behind the sum:
///     sum[k] x[k] * ((q[k,n] - z[n]) * s[n])  =  (sum[k] x[k] * q[k,n]  -  z[n] * sum[k] x[k]) *
///     s[n] moving = x * q, zero = z, beside = x, scale = s
struct SumApart {
  ScalarRef moving;
  ScalarRef scale;  ///< null: 1
  ScalarRef zero;   ///< null: 0
  ScalarRef beside;
};

/// Nothing where all of the product changes along the sum. `is_invariant`: what does not;
/// `is_short`: what may be summed up beside the product, since it is the same for all of its
/// columns.
std::optional<SumApart> sum_apart(const ScalarRef& product,
                                  const std::function<bool(const ScalarRef&)>& is_invariant,
                                  const std::function<bool(const ScalarRef&)>& is_short);

}  // namespace weft

#pragma once

#include "expr/scalar_expr.h"

namespace weft {

/// What a thread has of the elements that it went over: how many, the first of them (the shift, 0
/// where it is not finite), Σ (x - shift) and Σ (x - shift)². The shift is one of the elements, so
/// that squares of it are no larger than what they are part of.
struct ShiftedSums {
  ScalarRef count, shift, sum, squares;
};
/// The shift that begins with x.
ScalarRef shift_of(const ScalarRef& x);
/// Σ x.
ScalarRef total_of(const ShiftedSums& sums);
/// Σ (x - mean)² = squares + e (2 sum + count e), e = shift - mean.
ScalarRef moment_about(const ShiftedSums& sums, const ScalarRef& mean);

/// Σ (x - mean)² of a part with `count` terms, their total, and their moment about their own mean.
ScalarRef moment_of_part(const ScalarRef& count, const ScalarRef& total, const ScalarRef& moment,
                         const ScalarRef& mean);

}  // namespace weft

#pragma once

#include <functional>
#include <vector>

#include "expr/scalar_expr.h"
#include "graph/scalar_op.h"
#include "index/index_expr.h"

namespace weft {

/// Where along an axis the terms of a reduction add something.
struct TermReach {
  /// Over the axes of the result: before the last of `first`, and behind the first of `last`, terms
  /// leave what was reduced as it was, but for what `beyond` adds. Both empty: they add something
  /// everywhere.
  std::vector<IndexExpr> first, last;
  /// What terms out of reach still add to a sum, over these axes and the variable along the axis:
  /// 0 * x, which is NaN where x, this, is not finite. Null: nothing.
  ScalarRef beyond;
  /// Whether that holds of what masks are meant for alone: they are added to numbers, or are the
  /// lowest ones themselves, and each row keeps terms from which those are far.
  bool assumed = false;

  bool bounded() const { return !first.empty() || !last.empty(); }
};

/// What is asked about the terms of a reduction.
struct TermQuestion {
  int along = -1;  ///< their variable that runs along the axis
  int axes = 0;    ///< of the reduction's result: variables 0..axes-1
  Combiner combiner = Combiner::kSum;
  /// Whether a read is of a number from which exponents are taken: finite, or infinite as the
  /// terms that it is the extremum of, or NaN where the whole row is.
  std::function<bool(const Scalar& read)> is_reference;
  /// What a variable goes through.
  RangeOf range;
  /// Whether a read is of memory that is there before the loop.
  std::function<bool(const Scalar& read)> is_outside;
};

/// The reach of a reduction's terms, from the comparisons of indices in them: of a comparison that
/// is linear in the axis and decides them, either side is tried. What selects -inf under a maximum,
/// and exp of -inf below a reference in a sum, are neutral for all data; 0 * x is, where x is
/// finite.
///     max: j > i ? -inf : s[i, j]     j <= i
///     sum: exp((j > i ? -inf : s[i, j]) - m[i]) * v[j, e]     j <= i, beyond 0 * v[j, e]
/// Masks that are added, or of finite numbers from -65504 on (the lowest of float16), are taken as
/// they are meant: a score beside one is a number far above it. Of finite ones this asks for a term
/// within reach in every row, and that nothing else from memory is added: it may be another mask.
/// `assumed` tells.
///     max: s[i, j] + (j > i ? -3.4e38 : 0)     j <= i, assumed
TermReach reach_of(const ScalarRef& term, const TermQuestion& question);

}  // namespace weft

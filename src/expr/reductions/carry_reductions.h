#pragma once

#include <string>
#include <utility>
#include <vector>

#include "expr/reductions/neutral_terms.h"
#include "expr/tensor_program.h"

namespace weft {

/// A program whose reductions along one axis are carried through a loop over pieces of that axis.
struct CarriedProgram {
  /// When an expression is made: before the loop, in each of its steps, or behind it.
  enum class Part : uint8_t { kBefore, kStep, kBehind };
  /// What a step hands to the next.
  struct Carry {
    ExprId reduction = -1;  ///< of the program that this was made of
    TensorId before = -1;   ///< as the step finds it; nobody makes it
    TensorId after = -1;    ///< as the step leaves it; behind the loop: the last one
    TensorId parts = -1;    ///< where the axis is split: `after` of each part, parts outermost
    ScalarValue first;      ///< what the first step finds
    TermReach reach;        ///< of its terms
  };
  /// In the order of the parts. Tensors of the program that it was made of keep their numbers.
  TensorProgram program;
  std::vector<Part> parts;      ///< by expression
  std::vector<int> along;       ///< by expression: its variable that runs along the axis, or -1
  std::vector<int> over_parts;  ///< by expression: its variable that runs over the parts, or -1
  std::vector<Carry> carries;
  /// Reductions whose terms lack factors until the loop has ended, and the reductions that these
  /// are made of: sums before they are divided, say, which may overflow where what is divided does
  /// not.
  std::vector<std::pair<ExprId, ExprId>> postponed;
  bool depends = false;    ///< the terms of a carried reduction depend on another one
  bool positions = false;  ///< a position is carried beside the best value
  int64_t extent = 0;      ///< of the axis
  int64_t splits = 1;      ///< parts of the axis, with a loop of steps each
};

/// Carries all reductions along the axis that reduction `root` has as its variable `axis` through
/// one loop. A reduction of which a later one's terms depend through a homomorphism
/// (expr/reductions/homomorphism.h) is carried beside it, though it is known only behind the loop:
///
///     m = max[n] t[n];  l = sum[n] exp(t[n] - m);  y = sum[n] exp(t[n] - m) / l * v[n]
///
///     step:   m' = max(m, max t);  z = m' == -inf ? 0 : m';  c = exp(m - z);  w[n] = exp(t[n] - z)
///             l' = l * c + sum w;  y' = y * c + sum w * v
///     behind: l = l' * exp(z - m');  y = y' * exp(z - m') / l
///
/// A term of the exponent that is the maximum (minimum) of what it is taken from makes a running
/// reference z of finite numbers: rows without any finite term so far add zeros, and the factor
/// behind the loop makes of them what the reductions one after another make: NaN. All else is
/// postponed behind the loop. Where comparisons of indices mask terms, steps out of `reach` of all
/// carries may be left out.
///
/// A position of the best term is carried beside that term. Of parts of the axis that have the best
/// alike it is that of the first, or of the last.
///
/// With `splits` the axis falls into so many parts, each of which has such a loop (flash-decoding).
/// What stands behind begins with putting them together, by the same quotients: what a part left is
/// referred to its own value of the exponent, and comes to refer to that of all parts.
///
///     behind: m = max[p] m_p;  z = m == -inf ? 0 : m;  c[p] = exp(m_p - z)
///             l = sum[p] l_p * c[p];  y = sum[p] y_p * c[p];  then as above
///
/// Requires: row-major tensors, no opaque steps. Error (kUnsupported): what is no such chain, and
/// why.
Result<CarriedProgram> carry_reductions(const TensorProgram& program, ExprId root, int axis,
                                        int64_t splits = 1);

}  // namespace weft

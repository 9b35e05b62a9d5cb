#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "expr/scalar_expr.h"
#include "support/result.h"

namespace weft {

/// f = constant + Σ coefficient * atom; an atom is no sum, difference, negation or product with a
/// number. Atoms are told apart structurally, and each stands once.
struct LinearForm {
  struct Term {
    ScalarRef atom;
    double coefficient = 0;
  };
  std::vector<Term> terms;
  double constant = 0;
};
/// Conversions from one float to another count as the operand.
LinearForm linear_form(const ScalarRef& f);
/// to += factor * form.
void add_to(LinearForm& to, const LinearForm& form, double factor);
/// Whether a = factor * b, up to rounding.
bool is_multiple(const LinearForm& a, const LinearForm& b, double factor);

/// All that a scalar has of some values, split off from the rest:
///     f(x, s) = g(x) * exp(Σ coefficient s) * Π base(s)^±1,    or, of a sum, g(x) + Σ coefficient
///     s
/// so that a reduction of f, which distributes over * (or +), need not know s before it begins
/// (RedFuser, ASPLOS 2026: the condition under which reductions fuse).
///     exp(t[n] - m) / l * v[n]: m with -1 in the exponent, 1/l as a base
///     exp(t[n] - m - log(l)): the same
struct Homomorphism {
  struct Exponent {
    ScalarRef value;  ///< the read of it
    double coefficient = 0;
    LinearForm beside;             ///< what else stands in this exponent
    std::optional<double> unless;  ///< stands as `value == unless ? some finite number : value`
  };
  struct Power {
    ScalarRef base;
    bool inverse = false;
  };
  std::vector<Exponent> exponents;
  std::vector<Power> powers;
  std::vector<LinearForm::Term> summands;  ///< of a sum

  bool empty() const { return exponents.empty() && powers.empty() && summands.empty(); }
};

/// What a scalar is asked about.
struct SplitQuestion {
  std::function<bool(const Scalar& read)> is_value;  ///< one of those to be split off
  /// Whether a node names by itself, in its indices, what the reduction runs over.
  std::function<bool(const Scalar& node)> moves;
};
/// As a product. Error (kUnsupported): it is none, and where it stops to be one.
Result<Homomorphism> split_product(const ScalarRef& f, const SplitQuestion& question);
/// As a sum.
Result<Homomorphism> split_sum(const ScalarRef& f, const SplitQuestion& question);

}  // namespace weft

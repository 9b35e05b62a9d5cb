#pragma once

#include <vector>

#include "index/index_map.h"

namespace weft {

/// `(base floordiv divisor) mod extent` for the digits of a number in a mixed radix: the parts that
/// index expressions take a dimension (or a sum of them) into.
struct IndexDigit {
  IndexExpr base;
  int64_t divisor = 1;
  int64_t extent = 1;
};

/// sum of coefficient * digit + constant, ascending by the size of the coefficient.
struct DigitSum {
  struct Term {
    IndexDigit digit;
    int64_t coefficient = 1;
  };
  std::vector<Term> terms;
  int64_t constant = 0;
};

/// The expression as digits of its variables (ranges starting at 0, except where a variable stands
/// alone) and of sums under a floordiv or mod; false if some part is not of that form.
bool as_digits(const IndexExpr& e, const RangeOf& range, DigitSum* sum);

/// Whether the value fixes every digit: each coefficient exceeds what all smaller ones add up to.
bool fixes_digits(const DigitSum& sum);

/// The digits of one base, by divisor.
struct DigitGroup {
  IndexExpr base;
  struct Known {
    IndexDigit digit;
    IndexExpr value;  ///< where the caller tracks values
  };
  std::vector<Known> digits;
};
/// Files a digit under its base; a second digit of the same place is dropped.
void add_digit(std::vector<DigitGroup>& groups, const IndexDigit& digit, const IndexExpr& value);
/// Whether the digits join without gap or overlap up to the base's extent.
bool digits_cover(const DigitGroup& group, int64_t extent);

}  // namespace weft

#include <algorithm>
#include <cstdlib>

#include "index/index_digits.h"
#include "index/index_map.h"
#include "index/index_node.h"

namespace weft {
namespace {

bool digit_of_base(const IndexExpr& base, int64_t divisor, int64_t modulus, const RangeOf& range,
                   IndexDigit* digit) {
  const Interval r = range_of(base, range);
  // A lone variable counts from its lower end, so its parts only mean something from zero.
  if (r.lo < 0 || r.hi >= kUnbounded.hi || (base.is_var() && r.lo != 0)) return false;
  const int64_t quotients = r.hi / divisor + 1;
  *digit = {base, divisor, modulus == 0 ? quotients : std::min(modulus, quotients)};
  return true;
}

/// One atom as a digit; `offset` is what the digit's value has to be raised by.
bool as_digit(const IndexExpr& atom, const RangeOf& range, IndexDigit* digit, int64_t* offset) {
  *offset = 0;
  if (atom.is_var()) {
    const Interval r = range(atom.var_id());
    if (r.empty() || r.hi >= kUnbounded.hi || r.lo <= kUnbounded.lo) return false;
    *digit = {atom, 1, r.hi - r.lo + 1};
    *offset = r.lo;
    return true;
  }
  if (atom.op() == IndexOp::kFloorDiv) {
    return digit_of_base(atom.lhs(), atom.rhs().constant(), 0, range, digit);
  }
  if (atom.op() != IndexOp::kMod) return false;
  const IndexExpr& inner = atom.lhs();
  if (inner.op() == IndexOp::kFloorDiv) {
    return digit_of_base(inner.lhs(), inner.rhs().constant(), atom.rhs().constant(), range, digit);
  }
  return digit_of_base(inner, 1, atom.rhs().constant(), range, digit);
}

int64_t extent_of(const IndexExpr& base, const RangeOf& range) {
  const Interval r = range_of(base, range);
  return base.is_var() ? r.hi - r.lo + 1 : r.hi + 1;
}

}  // namespace

bool as_digits(const IndexExpr& e, const RangeOf& range, DigitSum* sum) {
  const IndexSum parts = take_apart(e);
  *sum = {};
  sum->constant = parts.constant;
  for (const auto& part : parts.terms) {
    IndexDigit digit;
    int64_t offset = 0;
    if (!as_digit(part.atom, range, &digit, &offset)) return false;
    sum->constant += part.coefficient * offset;
    if (digit.extent > 1) sum->terms.push_back({digit, part.coefficient});
  }
  std::sort(sum->terms.begin(), sum->terms.end(), [](const auto& a, const auto& b) {
    return std::abs(a.coefficient) < std::abs(b.coefficient);
  });
  return true;
}

bool fixes_digits(const DigitSum& sum) {
  __int128 below = 0;
  for (const auto& term : sum.terms) {
    const __int128 weight = std::abs(term.coefficient);
    if (weight <= below) return false;
    below += weight * (term.digit.extent - 1);
  }
  return true;
}

void add_digit(std::vector<DigitGroup>& groups, const IndexDigit& digit, const IndexExpr& value) {
  auto group = std::find_if(groups.begin(), groups.end(),
                            [&](const DigitGroup& g) { return g.base == digit.base; });
  if (group == groups.end()) {
    groups.push_back({digit.base, {}});
    group = groups.end() - 1;
  }
  for (const auto& known : group->digits) {
    if (known.digit.divisor == digit.divisor && known.digit.extent == digit.extent) return;
  }
  group->digits.push_back({digit, value});
  std::sort(group->digits.begin(), group->digits.end(),
            [](const auto& a, const auto& b) { return a.digit.divisor < b.digit.divisor; });
}

bool digits_cover(const DigitGroup& group, int64_t extent) {
  int64_t reached = 1;
  for (const auto& known : group.digits) {
    if (known.digit.divisor != reached) return false;
    if (__builtin_mul_overflow(reached, known.digit.extent, &reached)) return false;
  }
  return reached >= extent;
}

namespace {

/// Solves value = e for the variables of e, digit by digit.
class Inverter {
 public:
  explicit Inverter(const IndexMap& map)
      : map_(map), range_([this](int var) { return map_.range(var); }) {}

  Result<IndexMap> run() {
    if (!map_.symbol_ranges.empty() || !map_.constraints.empty()) {
      return no("it has symbols or constraints");
    }
    inverse_.domain = image(map_);
    for (size_t i = 0; i < map_.results.size(); ++i) {
      equations_.push_back({map_.results[i], IndexExpr::var(static_cast<int>(i))});
    }
    for (size_t i = 0; i < equations_.size(); ++i) {
      if (i > kMaxEquations) return no("it is too involved");
      WEFT_RETURN_IF_ERROR(split(equations_[i].expr, equations_[i].value));
      solve_groups();
    }
    return assembled();
  }

 private:
  static constexpr size_t kMaxEquations = 256;
  struct Equation {
    IndexExpr expr;
    IndexExpr value;  ///< in the inverse's variables
  };

  static Error no(const std::string& reason) {
    return unsupported("the index map has no inverse that is known: " + reason);
  }
  Interval value_range(const IndexExpr& value) const {
    return range_of(value, [this](int var) { return inverse_.range(var); });
  }

  /// value = constant + sum c_t * digit_t  =>  digit_t = ((value - low) floordiv |c_t|) mod
  /// extent_t, counted from the other end where c_t is negative.
  Status split(const IndexExpr& e, const IndexExpr& value) {
    DigitSum sum;
    if (!as_digits(e, range_, &sum)) return no("a result is not made of digits of its dimensions");
    int64_t low = sum.constant, weight = 1;
    for (const auto& term : sum.terms) {
      if (std::abs(term.coefficient) != weight) return no("a result leaves gaps or overlaps");
      if (term.coefficient < 0) low += term.coefficient * (term.digit.extent - 1);
      if (__builtin_mul_overflow(weight, term.digit.extent, &weight)) return no("it overflows");
    }
    const IndexExpr from_zero = value - IndexExpr(low);
    for (size_t t = 0; t < sum.terms.size(); ++t) {
      const auto& term = sum.terms[t];
      IndexExpr digit = floor_div(from_zero, std::abs(term.coefficient));
      if (t + 1 < sum.terms.size()) digit = mod(digit, term.digit.extent);
      if (term.coefficient < 0) digit = IndexExpr(term.digit.extent - 1) - digit;
      add_digit(groups_, term.digit, digit);
    }
    return {};
  }

  /// Sums whose digits are all known become equations themselves.
  void solve_groups() {
    for (size_t g = 0; g < groups_.size();) {
      const DigitGroup& group = groups_[g];
      if (group.base.is_var() || !digits_cover(group, extent_of(group.base, range_))) {
        ++g;
        continue;
      }
      IndexExpr value(0);
      for (const auto& known : group.digits) {
        value = value + known.value * IndexExpr(known.digit.divisor);
      }
      equations_.push_back(
          {group.base, simplify(value, [this](int v) { return inverse_.range(v); })});
      groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(g));
    }
  }

  Result<IndexMap> assembled() {
    for (int d = 0; d < map_.dim_count(); ++d) {
      const Interval range = map_.range(d);
      const IndexExpr var = IndexExpr::var(d);
      if (range.lo >= range.hi) {
        inverse_.results.emplace_back(range.lo);
        continue;
      }
      const auto group = std::find_if(groups_.begin(), groups_.end(),
                                      [&](const DigitGroup& g) { return g.base == var; });
      if (group == groups_.end()) return no("a dimension does not occur");
      if (!digits_cover(*group, range.hi - range.lo + 1)) return no("a dimension is not covered");
      IndexExpr value(range.lo);
      for (const auto& known : group->digits) {
        value = value + known.value * IndexExpr(known.digit.divisor);
      }
      inverse_.results.push_back(value);
      groups_.erase(group);
    }
    if (!groups_.empty()) return no("a sum under floordiv or mod is not covered");
    return checked();
  }

  /// Onto the box: as many points in it as in the domain (the digits make it one to one).
  Result<IndexMap> checked() {
    __int128 from = 1, onto = 1;
    for (const Interval& r : map_.domain) from *= r.empty() ? 0 : r.hi - r.lo + 1;
    for (const Interval& r : inverse_.domain) {
      onto *= r.empty() ? 0 : static_cast<__int128>(r.hi) - r.lo + 1;
      if (onto > (static_cast<__int128>(1) << 62)) return no("the box of its image is too large");
    }
    if (from != onto) return no("its image is not a box");
    IndexMap result = simplify(inverse_);
    for (size_t d = 0; d < map_.domain.size(); ++d) {
      const Interval r = value_range(result.results[d]);
      if (r.lo < map_.domain[d].lo || r.hi > map_.domain[d].hi) {
        return no("an index leaves its domain");
      }
    }
    return result;
  }

  const IndexMap& map_;
  RangeOf range_;
  IndexMap inverse_;
  std::vector<Equation> equations_;
  std::vector<DigitGroup> groups_;
};

}  // namespace

Result<IndexMap> inverse(const IndexMap& map) { return Inverter(map).run(); }

bool is_injective(const IndexMap& map) {
  const RangeOf range = [&map](int var) { return map.range(var); };
  std::vector<IndexExpr> known = map.results;
  std::vector<DigitGroup> groups;
  for (size_t i = 0; i < known.size() && i < 256; ++i) {
    DigitSum sum;
    if (!as_digits(known[i], range, &sum) || !fixes_digits(sum)) continue;
    for (const auto& term : sum.terms) add_digit(groups, term.digit, IndexExpr(0));
    for (size_t g = 0; g < groups.size();) {
      if (!groups[g].base.is_var() && digits_cover(groups[g], extent_of(groups[g].base, range))) {
        known.push_back(groups[g].base);
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
      } else {
        ++g;
      }
    }
  }
  const int vars = map.dim_count() + static_cast<int>(map.symbol_ranges.size());
  for (int v = 0; v < vars; ++v) {
    const Interval r = map.range(v);
    if (r.lo >= r.hi) continue;
    const IndexExpr var = IndexExpr::var(v);
    const bool covered = std::any_of(groups.begin(), groups.end(), [&](const DigitGroup& g) {
      return g.base == var && digits_cover(g, r.hi - r.lo + 1);
    });
    if (!covered) return false;
  }
  return true;
}

}  // namespace weft

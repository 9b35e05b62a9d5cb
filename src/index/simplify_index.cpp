#include <algorithm>
#include <numeric>

#include "index/index_expr.h"
#include "index/index_node.h"

namespace weft {
namespace {

/// Bounds saturate here; one that has reached it says nothing.
constexpr int64_t kFar = int64_t{1} << 62;

int64_t saturated(__int128 v) {
  return v > kFar ? kFar : v < -kFar ? -kFar : static_cast<int64_t>(v);
}

bool is_known(const Interval& r) { return r.lo > -kFar && r.hi < kFar; }

Interval times(const Interval& a, const Interval& b) {
  const __int128 p[] = {static_cast<__int128>(a.lo) * b.lo, static_cast<__int128>(a.lo) * b.hi,
                        static_cast<__int128>(a.hi) * b.lo, static_cast<__int128>(a.hi) * b.hi};
  return {saturated(*std::min_element(p, p + 4)), saturated(*std::max_element(p, p + 4))};
}

Interval plus(const Interval& a, const Interval& b) {
  return {saturated(static_cast<__int128>(a.lo) + b.lo),
          saturated(static_cast<__int128>(a.hi) + b.hi)};
}

Interval modulo(const Interval& a, int64_t m) {
  if (is_known(a) && floor_divide(a.lo, m) == floor_divide(a.hi, m)) {
    return {floor_modulo(a.lo, m), floor_modulo(a.hi, m)};
  }
  return {0, m - 1};
}

Interval bounds(const IndexExpr& e, const RangeOf& range) {
  switch (e.op()) {
    case IndexOp::kConst:
      return {e.constant(), e.constant()};
    case IndexOp::kVar:
      return range(e.var_id());
    case IndexOp::kAdd:
      return plus(bounds(e.lhs(), range), bounds(e.rhs(), range));
    case IndexOp::kMul:
      return times(bounds(e.lhs(), range), bounds(e.rhs(), range));
    case IndexOp::kFloorDiv: {
      const Interval a = bounds(e.lhs(), range);
      const int64_t d = e.rhs().constant();
      return {a.lo <= -kFar ? -kFar : floor_divide(a.lo, d),
              a.hi >= kFar ? kFar : floor_divide(a.hi, d)};
    }
    case IndexOp::kMod:
      return modulo(bounds(e.lhs(), range), e.rhs().constant());
    case IndexOp::kMin: {
      const Interval a = bounds(e.lhs(), range), b = bounds(e.rhs(), range);
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    }
    case IndexOp::kMax: {
      const Interval a = bounds(e.lhs(), range), b = bounds(e.rhs(), range);
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    }
  }
  return {-kFar, kFar};
}

Interval times(const Interval& a, int64_t c) { return times(a, Interval{c, c}); }

class Simplifier {
 public:
  explicit Simplifier(const RangeOf& range) : range_(range) {}

  IndexExpr run(const IndexExpr& e) {
    IndexExpr current = e;
    for (int round = 0; round < kMaxRounds; ++round) {
      IndexExpr next = visit(current);
      if (next == current) break;
      current = std::move(next);
    }
    return current;
  }

 private:
  static constexpr int kMaxRounds = 8;

  IndexExpr visit(const IndexExpr& e) {
    if (--budget_ < 0) return e;
    switch (e.op()) {
      case IndexOp::kConst:
        return e;
      case IndexOp::kVar: {
        const Interval r = range_(e.var_id());
        return r.lo == r.hi ? IndexExpr(r.lo) : e;
      }
      case IndexOp::kAdd:
        return sum(e);
      case IndexOp::kMul:
        return visit(e.lhs()) * visit(e.rhs());
      case IndexOp::kFloorDiv:
        return division(visit(e.lhs()), e.rhs().constant());
      case IndexOp::kMod:
        return remainder(visit(e.lhs()), e.rhs().constant());
      case IndexOp::kMin:
      case IndexOp::kMax:
        return extremum(e);
    }
    return e;
  }

  /// Whether no variable of an affine sum has one value alone.
  bool all_free(const IndexExpr& e) {
    const auto is_free = [&](const IndexExpr& term) {
      if (term.is_const()) return true;
      const Interval r = range_((term.is_var() ? term : term.lhs()).var_id());
      return r.lo != r.hi;
    };
    const IndexExpr* rest = &e;
    for (; rest->op() == IndexOp::kAdd; rest = &rest->lhs()) {
      if (!is_free(rest->rhs())) return false;
    }
    return is_free(*rest);
  }

  IndexExpr sum(const IndexExpr& e) {
    if (node_of(e).affine && all_free(e)) return e;
    const IndexSum from = take_apart(e);
    IndexSum to;
    to.constant = from.constant;
    to.terms.reserve(from.terms.size());
    for (const auto& term : from.terms) add_multiple(visit(term.atom), term.coefficient, &to);
    IndexExpr result = put_together_unordered(std::move(to));
    while (result.op() == IndexOp::kAdd && !node_of(result).affine && join_digits(&result)) {
    }
    return result;
  }

  /// (x mod n)*c + (x floordiv n)*c*n -> x*c, and the same where the quotient is taken mod m:
  /// (x mod n)*c + ((x floordiv n) mod m)*c*n -> (x mod n*m)*c. The quotient may stand spread over
  /// the sum, as what the builder made of it.
  bool join_digits(IndexExpr* e) {
    const IndexSum s = take_apart(*e);
    for (const auto& low : s.terms) {
      if (low.atom.op() != IndexOp::kMod) continue;
      if (--budget_ < 0) return false;
      const IndexExpr& x = low.atom.lhs();
      const int64_t n = low.atom.rhs().constant();
      int64_t weight = 0;
      if (__builtin_mul_overflow(low.coefficient, n, &weight)) continue;
      const IndexExpr quotient = floor_div(x, n);
      if (contains(s, quotient, weight)) {
        *e = *e - low.atom * low.coefficient - quotient * weight + x * low.coefficient;
        return true;
      }
      for (const auto& high : s.terms) {
        if (high.atom.op() != IndexOp::kMod || high.coefficient != weight) continue;
        const int64_t m = high.atom.rhs().constant();
        int64_t both = 0;
        if (!(mod(quotient, m) == high.atom) || __builtin_mul_overflow(n, m, &both)) continue;
        *e = *e - low.atom * low.coefficient - high.atom * weight + mod(x, both) * low.coefficient;
        return true;
      }
    }
    return false;
  }

  static bool contains(const IndexSum& sum, const IndexExpr& part, int64_t weight) {
    for (const auto& wanted : take_apart(part).terms) {
      bool found = false;
      for (const auto& term : sum.terms) {
        found =
            found || (term.atom == wanted.atom && term.coefficient == wanted.coefficient * weight);
      }
      if (!found) return false;
    }
    return !part.is_const();
  }

  /// A sum cut at a factor g of the divisor: the terms that g divides, and the rest, which stays in
  /// [k*g, (k+1)*g) and so never carries into them.
  struct Cut {
    int64_t g = 1;
    IndexExpr high;  ///< (multiples of g) / g + k
    IndexExpr low;   ///< the rest - k*g, in [0, g)
  };
  bool find_cut(const IndexExpr& x, int64_t divisor, Cut* cut) {
    const IndexSum s = take_apart(x);
    if (s.terms.size() < 2 && s.constant == 0) return false;
    std::vector<int64_t> factors;
    for (const auto& term : s.terms) {
      const int64_t g = std::gcd(term.coefficient, divisor);
      if (g > 1 && std::find(factors.begin(), factors.end(), g) == factors.end()) {
        factors.push_back(g);
      }
    }
    std::sort(factors.rbegin(), factors.rend());
    for (const int64_t g : factors) {
      if (--budget_ < 0) return false;
      Interval low_range{s.constant, s.constant};
      bool splits = false;
      for (const auto& term : s.terms) {
        if (term.coefficient % g == 0) continue;
        splits = true;
        low_range = plus(low_range, times(bounds(term.atom, range_), term.coefficient));
      }
      if (!splits && s.constant % g == 0) continue;
      if (!is_known(low_range)) continue;
      const int64_t k = floor_divide(low_range.lo, g);
      if (floor_divide(low_range.hi, g) != k) continue;
      IndexSum high, low;
      high.constant = k;
      low.constant = checked_add(s.constant, checked_mul(k, -g));
      for (const auto& term : s.terms) {
        if (term.coefficient % g == 0) {
          high.terms.push_back({term.atom, term.coefficient / g});
        } else {
          low.terms.push_back(term);
        }
      }
      *cut = {g, put_together(high), put_together(low)};
      return true;
    }
    return false;
  }

  IndexExpr division(const IndexExpr& x, int64_t divisor) {
    const Interval r = bounds(x, range_);
    if (is_known(r) && floor_divide(r.lo, divisor) == floor_divide(r.hi, divisor)) {
      return IndexExpr(floor_divide(r.lo, divisor));
    }
    // The builder takes multiples out; go on only with what it leaves divided.
    IndexExpr built = floor_div(x, divisor);
    if (built.op() != IndexOp::kFloorDiv) return built;
    const IndexExpr& numerator = built.lhs();
    divisor = built.rhs().constant();
    Cut cut;
    if (find_cut(numerator, divisor, &cut)) return division(cut.high, divisor / cut.g);
    return built;
  }

  IndexExpr remainder(const IndexExpr& x, int64_t modulus) {
    const Interval r = bounds(x, range_);
    if (is_known(r) && floor_divide(r.lo, modulus) == floor_divide(r.hi, modulus)) {
      return x - IndexExpr(checked_mul(floor_divide(r.lo, modulus), modulus));
    }
    IndexExpr built = mod(x, modulus);
    if (built.op() != IndexOp::kMod) return built;
    const IndexExpr& inner = built.lhs();
    modulus = built.rhs().constant();
    const Interval ir = bounds(inner, range_);
    if (is_known(ir) && floor_divide(ir.lo, modulus) == floor_divide(ir.hi, modulus)) {
      return inner - IndexExpr(checked_mul(floor_divide(ir.lo, modulus), modulus));
    }
    Cut cut;
    if (find_cut(inner, modulus, &cut)) {
      return remainder(cut.high, modulus / cut.g) * IndexExpr(cut.g) + cut.low;
    }
    return built;
  }

  IndexExpr extremum(const IndexExpr& e) {
    const IndexExpr a = visit(e.lhs()), b = visit(e.rhs());
    const bool is_min = e.op() == IndexOp::kMin;
    const Interval d = bounds(a - b, range_);
    if (d.hi <= 0) return is_min ? a : b;
    if (d.lo >= 0) return is_min ? b : a;
    return is_min ? min(a, b) : max(a, b);
  }

  const RangeOf& range_;
  int budget_ = 2000;
};

}  // namespace

Interval range_of(const IndexExpr& e, const RangeOf& range) {
  if (e.tree_size() > kMaxAnalysedSize) return {-kFar, kFar};
  return bounds(e, range);
}

IndexExpr simplify(const IndexExpr& e, const RangeOf& range) {
  if (e.is_const() || e.tree_size() > kMaxAnalysedSize) return e;
  return Simplifier(range).run(e);
}

}  // namespace weft

#include "schedule/stages/index_hull.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "support/rounding.h"

namespace weft {

namespace {

class HullOf {
 public:
  HullOf(const std::vector<CutLoop>& loops, const std::function<IndexHull(int)>& of)
      : loops_(loops), of_(of), range_(origins_of(loops)) {}

  std::optional<IndexHull> run(const IndexExpr& e) const {
    switch (e.op()) {
      case IndexOp::kConst:
        return IndexHull{e, 1};
      case IndexOp::kVar:
        return of_(e.var_id());
      case IndexOp::kAdd:
      case IndexOp::kMul: {
        const Hull h = unsimplified(e);
        return h ? of(h->origin, h->extent) : h;
      }
      case IndexOp::kFloorDiv:
        return quotient(run(e.lhs()), e.rhs().constant());
      case IndexOp::kMod:
        return remainder(run(e.lhs()), e.rhs().constant());
      case IndexOp::kMin:
      case IndexOp::kMax:
        return bound(e);
    }
    return std::nullopt;
  }

 private:
  using Hull = std::optional<IndexHull>;

  Hull of(const IndexExpr& origin, int64_t extent) const {
    return IndexHull{simplify(origin, range_), extent};
  }

  /// Of sums and multiples, whose origins are simplified once, all together.
  Hull unsimplified(const IndexExpr& e) const {
    if (e.op() == IndexOp::kAdd) {
      const Hull a = unsimplified(e.lhs()), b = unsimplified(e.rhs());
      if (!a || !b) return std::nullopt;
      return IndexHull{a->origin + b->origin, a->extent + b->extent - 1};
    }
    return e.op() == IndexOp::kMul ? product(e) : run(e);
  }

  Hull product(const IndexExpr& e) const {
    const bool left = e.lhs().is_const();
    if (!left && !e.rhs().is_const()) return std::nullopt;
    const int64_t factor = (left ? e.lhs() : e.rhs()).constant();
    const Hull h = unsimplified(left ? e.rhs() : e.lhs());
    if (!h) return std::nullopt;
    const int64_t steps = h->extent - 1;
    const IndexExpr first = factor < 0 ? h->origin + steps : h->origin;
    return IndexHull{first * factor, std::abs(factor) * steps + 1};
  }

  Hull quotient(const Hull& h, int64_t divisor) const {
    if (!h || divisor < 1) return std::nullopt;
    const int64_t last = h->extent - 1;
    // The origin is at most that far behind a multiple of the divisor.
    const int64_t behind = divisor - std::gcd(unit_of(h->origin), divisor);
    return of(floor_div(h->origin, divisor), (behind + last) / divisor + 1);
  }

  /// Where the hull may go around, all that there is.
  Hull remainder(const Hull& h, int64_t modulus) const {
    if (!h || modulus < 1) return std::nullopt;
    const Interval at = range_of(h->origin, range_);
    if (at.lo >= 0 && at.hi + h->extent <= modulus) return h;
    const int64_t unit = std::gcd(unit_of(h->origin), modulus);
    if (h->extent > unit) return IndexHull{0, modulus};
    return of(mod(h->origin, modulus), h->extent);
  }

  /// Of two numbers of which the hulls say which is less, or one that keeps to the bounds of both.
  Hull bound(const IndexExpr& e) const {
    const Hull a = run(e.lhs()), b = run(e.rhs());
    if (!a || !b) return std::nullopt;
    const Interval x = range_of(a->origin, range_), y = range_of(b->origin, range_);
    const Interval of_a{x.lo, x.hi + a->extent - 1}, of_b{y.lo, y.hi + b->extent - 1};
    const bool least = e.op() == IndexOp::kMin;
    if (of_a.hi <= of_b.lo) return least ? a : b;
    if (of_b.hi <= of_a.lo) return least ? b : a;
    const int64_t lo = least ? std::min(of_a.lo, of_b.lo) : std::max(of_a.lo, of_b.lo);
    const int64_t hi = least ? std::min(of_a.hi, of_b.hi) : std::max(of_a.hi, of_b.hi);
    return IndexHull{lo, hi - lo + 1};
  }

  /// A number of which the origin is a multiple, whatever the loops stand at; 0 of zero.
  int64_t unit_of(const IndexExpr& origin) const {
    AffineForm form;
    if (!as_affine(origin, &form)) return 1;
    int64_t unit = std::abs(form.constant);
    for (const auto& [loop, factor] : form.terms) {
      const CutLoop& l = loops_[static_cast<size_t>(loop)];
      unit = std::gcd(unit, std::abs(factor) * std::gcd(l.step, l.origins.lo));
    }
    return unit;
  }

  const std::vector<CutLoop>& loops_;
  const std::function<IndexHull(int)>& of_;
  RangeOf range_;
};

}  // namespace

RangeOf origins_of(const std::vector<CutLoop>& loops) {
  return [&loops](int loop) { return loops[static_cast<size_t>(loop)].origins; };
}

std::optional<IndexHull> hull_of(const IndexExpr& index, const std::vector<CutLoop>& loops,
                                 const std::function<IndexHull(int var)>& of) {
  return HullOf(loops, of).run(index);
}

std::optional<IndexHull> joined(const IndexHull& a, const IndexHull& b,
                                const std::vector<CutLoop>& loops) {
  if (a.origin == b.origin) return IndexHull{a.origin, std::max(a.extent, b.extent)};
  const IndexExpr between = simplify(b.origin - a.origin, origins_of(loops));
  if (!between.is_const()) return std::nullopt;
  const int64_t d = between.constant();
  const IndexExpr& first = d < 0 ? b.origin : a.origin;
  const int64_t behind =
      d < 0 ? std::max(b.extent, a.extent - d) : std::max(a.extent, d + b.extent);
  return IndexHull{first, behind};
}

}  // namespace weft

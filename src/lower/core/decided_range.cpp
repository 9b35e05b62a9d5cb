#include "lower/core/decided_range.h"

#include <algorithm>
#include <map>

#include "lower/core/index_emission.h"
#include "lower/core/predicates.h"

namespace weft::lowering {

namespace {

/// Left borders of more iterations than this are decided element by element, as are right borders
/// of which there are more.
constexpr int64_t kLongestBorder = 2;
constexpr size_t kMostLimits = 4;

/// A predicate as coefficient * origin of a dimension + open sizes + what lies within `rest`.
struct SizedPredicate {
  int64_t coefficient = 0;
  IndexExpr sizes = 0;
  Interval rest;
  bool open = false;
};

/// Nothing where that is unbounded, or the predicate does not go along the dimension.
std::optional<SizedPredicate> along(KernelWriter& w, const IndexExpr& predicate,
                                    const TileLoop::Dim& dim,
                                    const std::map<int, Interval>& inner) {
  PreparedIndex index;
  if (!as_affine_of_products(w, bind(w, predicate), &index) || !index.scaled.empty())
    return std::nullopt;
  SizedPredicate out{.coefficient = index.form.coefficient(dim.origin),
                     .rest = {index.form.constant, index.form.constant}};
  if (out.coefficient == 0) return std::nullopt;
  for (const auto& [id, k] : index.form.terms) {
    if (id == dim.origin) continue;
    if (is_invariant_size(w, id)) {
      out.sizes = out.sizes + IndexExpr::var(id) * k;
      out.open = true;
      continue;
    }
    const auto it = inner.find(id);
    const Interval r = it != inner.end() ? it->second : range_of_var(w, id);
    if (r.lo <= kOpenIterations.lo - kOpenIterations.hi || r.hi >= kOpenIterations.hi)
      return std::nullopt;
    out.rest.lo += k > 0 ? k * r.lo : k * r.hi;
    out.rest.hi += k > 0 ? k * r.hi : k * r.lo;
  }
  return out;
}

}  // namespace

DecidedRange decided_range(KernelWriter& w, const TileBody& body, const TileLoop::Dim& dim,
                           const IndexExpr& begin) {
  DecidedRange out;
  if (!begin.is_const()) return out;
  const std::map<int, Interval> inner = inner_ranges(w, body);
  for (const IndexExpr& p : predicates_of(body)) {
    const std::optional<SizedPredicate> sized = along(w, p, dim, inner);
    if (!sized || sized->coefficient < 0) continue;
    const int64_t c = sized->coefficient * dim.step;
    const int64_t start = sized->coefficient * begin.constant();
    const Interval rest{sized->rest.lo + start, sized->rest.hi + start};
    if (!sized->open) {
      const int64_t from = rest.lo < 0 ? (-rest.lo + c - 1) / c : 0;
      if (from <= kLongestBorder) out.from = std::max(out.from, from);
      continue;
    }
    const DecidedRange::Limit limit{IndexExpr(-1 - rest.hi) - sized->sizes, c};
    const bool known = std::any_of(out.limits.begin(), out.limits.end(), [&](const auto& l) {
      return l.slack == limit.slack && l.loss == limit.loss;
    });
    if (!known && out.limits.size() < kMostLimits) out.limits.push_back(limit);
  }
  return out;
}

Reg emit_last_decided(KernelWriter& w, const DecidedRange& decided, Reg whole) {
  const auto range = [&](int id) { return range_of_var(w, id); };
  for (const DecidedRange::Limit& limit : decided.limits) {
    const IndexExpr fitting = max(floor_div(limit.slack + limit.loss, limit.loss), 0);
    whole = w.builder.apply(ScalarOp::kMin, {whole, emit_index(w, simplify(fitting, range))},
                            DType::kI64);
  }
  return whole;
}

void state_decided(KernelWriter& w, const DecidedRange& decided, const IndexExpr& t) {
  for (const DecidedRange::Limit& limit : decided.limits)
    w.bindings.facts.push_back(limit.slack - t * limit.loss);
}

std::optional<SizeCut> size_cut(KernelWriter& w, const TileBody& body, const TileLoop::Dim& dim) {
  const std::map<int, Interval> inner = inner_ranges(w, body);
  for (const IndexExpr& p : predicates_of(body)) {
    const std::optional<SizedPredicate> sized = along(w, p, dim, inner);
    if (!sized || !sized->open) continue;
    const int64_t c = sized->coefficient;
    SizeCut cut{c, sized->sizes + sized->rest.lo, sized->sizes + sized->rest.hi, 0, 0};
    if (c > 0) {
      cut.first = floor_div(c - 1 - cut.high, c);
      cut.last = floor_div(c - 1 - cut.low, c);
    } else {
      cut.first = floor_div(cut.low, -c) + 1;
      cut.last = floor_div(cut.high, -c) + 1;
    }
    return cut;
  }
  return std::nullopt;
}

void state_decided(KernelWriter& w, const SizeCut& cut, const IndexExpr& origin, bool below_first) {
  const bool holds = below_first == (cut.coefficient < 0);
  const IndexExpr moved = origin * cut.coefficient;
  w.bindings.facts.push_back(holds ? moved + cut.low : IndexExpr(-1) - moved - cut.high);
}

}  // namespace weft::lowering

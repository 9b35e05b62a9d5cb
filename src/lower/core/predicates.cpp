#include "lower/core/predicates.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "lower/core/index_emission.h"

namespace weft::lowering {

namespace {

/// Copies of a loop body by index-set splitting, at most, and statements beyond which there are
/// none.
constexpr size_t kMaxPieces = 7;
constexpr int64_t kMaxEmittedStatements = 400;

/// The integer comparisons inside a body, each as an expression that is compared with 0.
void collect_predicates(const TileBody& body, std::vector<IndexExpr>* out);

void collect_from(const ScalarRef& s, std::vector<IndexExpr>* out) {
  visit(s, [&](const Scalar& n) {
    const std::optional<IndexExpr> difference = compared_difference(n);
    if (!difference) return;
    // e >= 0 holds or fails as the comparison does; equality changes on both sides of zero.
    const IndexExpr& d = *difference;
    switch (n.op) {
      case ScalarOp::kGe:
      case ScalarOp::kLt:
        out->push_back(d);
        break;
      case ScalarOp::kGt:
      case ScalarOp::kLe:
        out->push_back(d - 1);
        break;
      default:
        out->push_back(d);
        out->push_back(d - 1);
        break;
    }
  });
}

void collect_predicates(const TileBody& body, std::vector<IndexExpr>* out) {
  for (const TileNode& node : body) {
    if (node.kind == TileNode::Kind::kStatement) collect_from(node.statement.value, out);
    if (node.kind == TileNode::Kind::kLoop) collect_predicates(node.loop->body, out);
    if (node.kind == TileNode::Kind::kCondition) {
      collect_from(node.condition->condition, out);
      collect_predicates(node.condition->body, out);
    }
  }
}

void collect_loop_ranges(const TileBody& body, std::map<int, Interval>* out,
                         const std::function<Interval(const TileLoop::Dim&)>& range) {
  for (const TileNode& node : body) {
    if (node.kind == TileNode::Kind::kLoop) {
      for (const TileLoop::Dim& d : node.loop->dims) (*out)[d.origin] = range(d);
      collect_loop_ranges(node.loop->body, out, range);
    }
    if (node.kind == TileNode::Kind::kCondition)
      collect_loop_ranges(node.condition->body, out, range);
  }
}

/// Those that each step of a sum inside the body decides.
void collect_predicates_of_sums(const TileBody& body, std::vector<IndexExpr>* out) {
  for (const TileNode& node : body) {
    if (node.kind == TileNode::Kind::kCondition)
      collect_predicates_of_sums(node.condition->body, out);
    if (node.kind != TileNode::Kind::kLoop) continue;
    if (node.loop->carries.empty()) {
      collect_predicates_of_sums(node.loop->body, out);
    } else {
      collect_predicates(node.loop->body, out);
    }
  }
}

/// A loop inside a body whose begin moves with a loop around it: it goes so far from there.
struct MovingLoop {
  IndexExpr begin;
  int64_t length = 0;
};

void collect_moving_loops(const KernelWriter& w, const TileBody& body, int around,
                          const std::function<Interval(int)>& range,
                          std::map<int, MovingLoop>* out) {
  for (const TileNode& node : body) {
    if (node.kind == TileNode::Kind::kCondition)
      collect_moving_loops(w, node.condition->body, around, range, out);
    if (node.kind != TileNode::Kind::kLoop) continue;
    for (const TileLoop::Dim& d : node.loop->dims) {
      const IndexExpr begin = bind(w, d.begin);
      AffineForm form;
      if (!as_affine(begin, &form) || form.coefficient(around) == 0) continue;
      const Interval length = range_of(bind(w, d.end) - begin, range);
      if (length.hi < kUnbounded.hi) (*out)[d.origin] = {begin, std::max<int64_t>(length.hi, 1)};
    }
    collect_moving_loops(w, node.loop->body, around, range, out);
  }
}

/// Iterations of a dimension from which on a predicate is never negative, or not always.
class Cuts {
 public:
  Cuts(const TileLoop::Dim& dim, int64_t origin0, int64_t trips,
       const std::function<Interval(int)>& range)
      : dim_(dim), origin0_(origin0), trips_(trips), range_(range) {}

  /// `more`: what may be added to the predicate.
  void add(const IndexExpr& predicate, Interval more = {0, 0}) {
    AffineForm form;
    if (!as_affine(predicate, &form)) return;
    const int64_t c = form.coefficient(dim_.origin) * dim_.step;
    if (c == 0) return;
    const int64_t first = form.constant + form.coefficient(dim_.origin) * origin0_;
    Interval rest{first + more.lo, first + more.hi};
    for (const auto& [id, k] : form.terms) {
      if (id == dim_.origin) continue;
      const Interval r = range_(id);
      if (r.lo <= kUnbounded.lo || r.hi >= kUnbounded.hi) return;
      rest.lo += k > 0 ? k * r.lo : k * r.hi;
      rest.hi += k > 0 ? k * r.hi : k * r.lo;
    }
    for (const int64_t bound : {rest.lo, rest.hi}) {
      int64_t cut = 0;
      if (c > 0 && bound < 0) cut = (-bound + c - 1) / c;
      if (c < 0 && bound >= 0) cut = bound / -c + 1;
      if (cut > 0 && cut < trips_) at_.insert(cut);
    }
  }

  std::vector<Piece> pieces() const {
    if (at_.size() >= kMaxPieces) return {{0, trips_}};
    std::vector<Piece> out;
    int64_t begin = 0;
    for (const int64_t cut : at_) out.push_back({std::exchange(begin, cut), cut});
    out.push_back({begin, trips_});
    return out;
  }

 private:
  const TileLoop::Dim& dim_;
  int64_t origin0_, trips_;
  const std::function<Interval(int)>& range_;
  std::set<int64_t> at_;
};

}  // namespace

std::optional<IndexExpr> compared_difference(const Scalar& s) {
  if (s.kind != Scalar::Kind::kApply || !scalar_op_is_comparison(s.op)) return std::nullopt;
  const auto as_index = [](const Scalar& side) -> std::optional<IndexExpr> {
    if (side.kind == Scalar::Kind::kIndex) return side.index;
    if (side.kind == Scalar::Kind::kConstant && !is_float(side.type))
      return IndexExpr(side.value.i);
    return std::nullopt;
  };
  const auto left = as_index(*s.operands[0]), right = as_index(*s.operands[1]);
  return left && right ? std::optional(*left - *right) : std::nullopt;
}

std::vector<IndexExpr> predicates_of(const TileBody& body) {
  std::vector<IndexExpr> predicates;
  collect_predicates(body, &predicates);
  return predicates;
}

std::map<int, Interval> inner_ranges(const KernelWriter& w, const TileBody& body) {
  std::map<int, Interval> inner;
  const auto range = [&](int id) -> Interval {
    if (const auto it = inner.find(id); it != inner.end()) return it->second;
    return range_of_var(w, id);
  };
  collect_loop_ranges(body, &inner, [&](const TileLoop::Dim& d) -> Interval {
    const Interval lo = range_of(bind(w, d.begin), range), hi = range_of(bind(w, d.end), range);
    return {lo.lo, std::max(lo.lo, hi.hi - 1)};
  });
  return inner;
}

std::vector<Piece> split_iterations(KernelWriter& w, const TileBody& body, const TileLoop::Dim& dim,
                                    int64_t origin0, int64_t trips) {
  std::vector<Piece> whole = trips > 0 ? std::vector<Piece>{{0, trips}} : std::vector<Piece>{};
  if (trips < 2 || w.bindings.emitted_statements > kMaxEmittedStatements) return whole;
  const std::vector<IndexExpr> predicates = predicates_of(body);
  if (predicates.empty()) return whole;
  const std::map<int, Interval> inner = inner_ranges(w, body);
  const std::function<Interval(int)> range = [&](int id) -> Interval {
    if (const auto it = inner.find(id); it != inner.end()) return it->second;
    return range_of_var(w, id);
  };
  Cuts cuts(dim, origin0, trips, range);
  for (const IndexExpr& p : predicates) cuts.add(bind(w, p));
  // Of sums in loops that begin with this one: the begin, and how far they are from it.
  std::map<int, MovingLoop> moving;
  collect_moving_loops(w, body, dim.origin, range, &moving);
  std::vector<IndexExpr> of_sums;
  if (!moving.empty()) collect_predicates_of_sums(body, &of_sums);
  for (const IndexExpr& p : of_sums) {
    const IndexExpr bound = bind(w, p);
    AffineForm form;
    if (!as_affine(bound, &form)) continue;
    Interval more{0, 0};
    for (const auto& [id, loop] : moving) {
      const int64_t most = form.coefficient(id) * (loop.length - 1);
      (most > 0 ? more.hi : more.lo) += most;
    }
    cuts.add(substitute(bound,
                        [&](int id) {
                          const auto it = moving.find(id);
                          return it == moving.end() ? IndexExpr::var(id) : it->second.begin;
                        }),
             more);
  }
  return cuts.pieces();
}

std::vector<Piece> split_origins(KernelWriter& w, const TileBody& body, TileLoop::Dim dim,
                                 Interval origins) {
  dim.step = 1;
  std::vector<Piece> pieces =
      split_iterations(w, body, dim, origins.lo, origins.hi - origins.lo + 1);
  for (Piece& piece : pieces) {
    piece.begin += origins.lo;
    piece.end += origins.lo;
  }
  return pieces;
}

}  // namespace weft::lowering

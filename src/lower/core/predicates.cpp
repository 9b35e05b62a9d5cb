#include "lower/core/predicates.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

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
  const auto range = [&](int id) -> Interval {
    if (const auto it = inner.find(id); it != inner.end()) return it->second;
    return range_of_var(w, id);
  };
  std::set<int64_t> cuts{0, trips};
  for (const IndexExpr& p : predicates) {
    AffineForm form;
    if (!as_affine(bind(w, p), &form)) continue;
    const int64_t c = form.coefficient(dim.origin) * dim.step;
    if (c == 0) continue;
    Interval rest{form.constant + form.coefficient(dim.origin) * origin0, 0};
    rest.hi = rest.lo;
    bool bounded = true;
    for (const auto& [id, k] : form.terms) {
      if (id == dim.origin) continue;
      const Interval r = range(id);
      bounded &= r.lo > kUnbounded.lo && r.hi < kUnbounded.hi;
      rest.lo += k > 0 ? k * r.lo : k * r.hi;
      rest.hi += k > 0 ? k * r.hi : k * r.lo;
    }
    if (!bounded) continue;
    // First iterations from which c*t + rest is never, or not always, negative.
    for (const int64_t bound : {rest.lo, rest.hi}) {
      int64_t cut = 0;
      if (c > 0 && bound < 0) cut = (-bound + c - 1) / c;
      if (c < 0 && bound >= 0) cut = bound / -c + 1;
      if (cut > 0 && cut < trips) cuts.insert(cut);
    }
  }
  if (cuts.size() > kMaxPieces + 1) return whole;
  std::vector<Piece> pieces;
  for (auto it = cuts.begin(); std::next(it) != cuts.end(); ++it)
    pieces.push_back({*it, *std::next(it)});
  return pieces;
}

}  // namespace weft::lowering

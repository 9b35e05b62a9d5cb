#include "schedule/cpu/residues.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>

#include "schedule/cpu/clip_bounds.h"
#include "support/rounding.h"

namespace weft {

namespace {

bool is_zero(const ScalarRef& s) {
  return s->kind == Scalar::Kind::kConstant &&
         (is_float(s->type) ? s->value.f == 0 : s->value.i == 0);
}

/// Conditions of which each must hold for the term of a sum not to be zero.
void conditions_of(const ScalarRef& term, std::vector<ScalarRef>* out) {
  if (term->kind != Scalar::Kind::kApply) return;
  if (term->op == ScalarOp::kMul) {
    for (const ScalarRef& factor : term->operands) conditions_of(factor, out);
  } else if (term->op == ScalarOp::kSelect && is_zero(term->operands[2])) {
    add_conjuncts(term->operands[0], out);
    conditions_of(term->operands[1], out);
  }
}

/// `(axis + tap + c) % step == k`, by variables of the expression.
struct Congruence {
  int first = -1, second = -1;
  int64_t step = 1, offset = 0;
};
std::optional<Congruence> congruence_of(const ScalarRef& s) {
  if (s->kind != Scalar::Kind::kApply || s->op != ScalarOp::kEq ||
      s->operands[0]->kind != Scalar::Kind::kIndex ||
      s->operands[1]->kind != Scalar::Kind::kConstant)
    return std::nullopt;
  const IndexExpr& index = s->operands[0]->index;
  AffineForm form;
  if (index.op() != IndexOp::kMod || !index.rhs().is_const() || !as_affine(index.lhs(), &form) ||
      form.terms.size() != 2 || form.terms[0].second != 1 || form.terms[1].second != 1)
    return std::nullopt;
  const int64_t step = index.rhs().constant();
  return Congruence{form.terms[0].first, form.terms[1].first, step,
                    mod(IndexExpr(s->operands[1]->value.i - form.constant), step).constant()};
}

/// Equal runs of residues in each of which the first tap falls by one from residue to residue:
///     step 8, offset 3: residues 0..3 begin at taps 3..0, residues 4..7 at taps 7..4
int64_t halves_of(const Residue& r) { return r.step / std::gcd(r.offset + 1, r.step); }

}  // namespace

std::vector<Residue> residues_of(const GroupSpace& space, int root, int vec_axis) {
  std::vector<Residue> out;
  const TensorExpr& e = space.expr(root);
  if (e.combiner != Combiner::kSum || space.frame()) return out;
  const auto& axes = space.axes().axes;
  const auto& own = space.axes().axis_of[static_cast<size_t>(root)];
  std::vector<ScalarRef> conditions;
  conditions_of(e.body, &conditions);
  const auto consider = [&](const ScalarRef& part) {
    const std::optional<Congruence> c = congruence_of(part);
    if (!c || c->second >= e.axis_count() || c->first >= e.output_rank() ||
        c->second < e.output_rank())
      return;
    const Residue r{own[static_cast<size_t>(c->first)], own[static_cast<size_t>(c->second)],
                    c->step, c->offset};
    const auto& axis = axes[static_cast<size_t>(r.axis)];
    const auto& taps = axes[static_cast<size_t>(r.tap)];
    const bool is_used = std::ranges::any_of(
        out, [&](const Residue& o) { return o.axis == r.axis || o.tap == r.tap; });
    if (is_used || r.axis == vec_axis || r.tap == vec_axis || axis.open || r.step < 2 ||
        axis.extent <= r.step || taps.open || taps.extent < 2)
      return;
    out.push_back(r);
  };
  for (const ScalarRef& condition : conditions) consider(condition);
  return out;
}

int64_t length_of_residue(const GroupSpace& space, int root, int axis, int vec_axis) {
  if (axis < 0) return 1;
  const int64_t extent = space.axes().axes[static_cast<size_t>(axis)].extent;
  for (const Residue& r : residues_of(space, root, vec_axis)) {
    if (r.axis == axis) return ceil_div(extent, r.step);
  }
  return extent;
}

ResidueLoops::ResidueLoops(TileBuilder* builder, std::vector<Residue> residues)
    : b_(*builder), residues_(std::move(residues)) {}

int64_t ResidueLoops::extent(int axis) const {
  return b_.space().axes().axes[static_cast<size_t>(axis)].extent;
}

/// Those of an offset just below the step or the half of it, as any of a step of 2 is, of whole
/// steps, have equal lengths, and first taps that are sums of positions. Of an odd number of taps,
/// two apart, the residue that begins at the second has one less.
bool ResidueLoops::is_bounded(const Residue& r) const {
  const bool whole = extent(r.axis) % r.step == 0;
  const bool whole_taps = extent(r.tap) % r.step == 0 || (r.step == 2 && extent(r.tap) > r.step);
  return halves_of(r) > 2 || !whole || !whole_taps;
}

bool ResidueLoops::any_bounded() const {
  return std::ranges::any_of(residues_, [&](const Residue& r) { return is_bounded(r); });
}

TileVarId ResidueLoops::add_axis(TileLoop* loop, int axis, int64_t step, TileLoop* bounded) {
  const auto r = std::ranges::find(residues_, axis, &Residue::axis);
  if (r == residues_.end()) {
    loop->dims.push_back(b_.loop_dim(axis, step));
    coordinate_.insert_or_assign(axis, b_.index(axis));
    return loop->dims.back().offset;
  }
  if (is_bounded(*r)) return add_bounded(loop, *r, step, bounded);
  // Of the residue h * run + p, with h below 2, the first tap is h * run + run - 1 - p.
  const int64_t halves = halves_of(*r), run = r->step / halves;
  IndexExpr part = 0, first = run - 1;
  const auto add_part = [&](const char* name, int64_t count, int64_t each, int64_t sign) {
    if (count == 1) return;
    loop->dims.push_back(b_.plain_dim(name + std::to_string(axis), count, 1));
    part = part + b_.index_of(loop->dims.back()) * each;
    first = first + b_.index_of(loop->dims.back()) * (sign * each);
  };
  add_part("h", halves, run, 1);
  add_part("p", run, 1, -1);
  loop->dims.push_back(b_.plain_dim("a" + std::to_string(axis), extent(axis) / r->step, step));
  const IndexExpr coordinate = b_.index_of(loop->dims.back());
  b_.bind(axis, coordinate * r->step + part);
  first_tap_.insert_or_assign(axis, first);
  coordinate_.insert_or_assign(axis, coordinate);
  return loop->dims.back().offset;
}

/// An element g * step + offset - f is met by taps f, f + step, ... Tiles of several elements have
/// one first tap, whose loop is outside then.
TileVarId ResidueLoops::add_bounded(TileLoop* loop, const Residue& r, int64_t step,
                                    TileLoop* bounded) {
  const std::string name = std::to_string(r.axis);
  const int64_t length = extent(r.axis), last = length - 1 - r.offset;
  const int64_t groups = floor_div(IndexExpr(last + r.step - 1), r.step).constant() + 1;
  TileLoop::Dim group = b_.plain_dim("a" + name, groups, step),
                tap = b_.plain_dim("f" + name, r.step, 1);
  const IndexExpr g = b_.index_of(group), f = b_.index_of(tap);
  if (step > 1) {
    group.begin = floor_div(f + (r.step - 1 - r.offset), r.step);
    group.end = floor_div(f + last, r.step) + 1;
    loop->dims.push_back(tap);
    bounded->dims.push_back(group);
  } else {
    tap.begin = max(IndexExpr(0), g * r.step - last);
    tap.end = min(IndexExpr(r.step), g * r.step + (r.offset + 1));
    loop->dims.push_back(group);
    bounded->dims.push_back(tap);
  }
  b_.bind(r.axis, g * r.step + r.offset - f);
  first_tap_.insert_or_assign(r.axis, f);
  coordinate_.insert_or_assign(r.axis, g);
  return group.offset;
}

TileLoop::Dim ResidueLoops::tap(int axis, int64_t step) {
  const auto r = std::ranges::find(residues_, axis, &Residue::tap);
  if (r == residues_.end()) return b_.loop_dim(axis, step);
  const IndexExpr& first = first_tap_.at(r->axis);
  TileLoop::Dim dim = b_.plain_dim("a" + std::to_string(axis), ceil_div(extent(axis), r->step), 1);
  if (!takes_as_many_taps(axis)) {
    // Two apart a sum of positions is enough.
    const bool two = r->step == 2 && !is_bounded(*r);
    dim.end = two ? dim.end - first : floor_div(extent(axis) + (r->step - 1) - first, r->step);
  }
  b_.bind(axis, b_.index_of(dim) * r->step + first);
  return dim;
}

bool ResidueLoops::takes_as_many_taps(int axis) const {
  const auto r = std::ranges::find(residues_, axis, &Residue::tap);
  return r == residues_.end() || extent(axis) % r->step == 0;
}

IndexExpr ResidueLoops::coordinate(int axis) const {
  const auto found = coordinate_.find(axis);
  return found == coordinate_.end() ? b_.index(axis) : found->second;
}

ScalarRef ResidueLoops::simplified(const ScalarRef& term) const {
  if (residues_.empty()) return term;
  const RangeOf range = ranges_of(b_.program());
  std::unordered_map<const Scalar*, ScalarRef> known;
  const std::function<ScalarRef(const ScalarRef&)> walk = [&](const ScalarRef& s) -> ScalarRef {
    if (const auto found = known.find(s.get()); found != known.end()) return found->second;
    ScalarRef out = s;
    if (s->kind == Scalar::Kind::kIndex) {
      out = scalar_index(simplify(s->index, range), s->type);
      if (out->index.is_const()) out = scalar_constant(int_value(s->type, out->index.constant()));
    } else if (s->kind == Scalar::Kind::kApply) {
      std::vector<ScalarRef> operands;
      for (const ScalarRef& o : s->operands) operands.push_back(walk(o));
      out = scalar_apply(s->op, std::move(operands), s->type);
    } else if (s->kind == Scalar::Kind::kRead) {
      auto copy = std::make_shared<Scalar>(*s);
      for (IndexExpr& i : copy->indices) i = simplify(i, range);
      out = copy;
    }
    known.emplace(s.get(), out);
    return out;
  };
  return walk(term);
}

}  // namespace weft

#include "tile/analysis/point_set.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace weft {
namespace {

std::set<TileVarId> variables_of(const IndexExpr& e) {
  const std::vector<int> ids = variables(e);
  return {ids.begin(), ids.end()};
}

/// An index expression that is asked at many points: a sum of products where it is one.
class IndexAt {
 public:
  explicit IndexAt(const IndexExpr& e) : e_(e), affine_(as_affine(e, &form_)) {}

  int64_t operator()(PointSet::Point point) const {
    if (!affine_) return evaluate(e_, [&](int id) { return point[static_cast<size_t>(id)]; });
    int64_t sum = form_.constant;
    for (const auto& [var, coefficient] : form_.terms) {
      sum += coefficient * point[static_cast<size_t>(var)];
    }
    return sum;
  }

 private:
  IndexExpr e_;
  AffineForm form_;
  bool affine_;
};

/// By operand a of nested minima or maxima: sign * (a - b). An operand is a sum of products far
/// more often than the whole.
std::vector<IndexAt> differences(const IndexExpr& e, IndexOp nested, const IndexExpr& b,
                                 int64_t sign) {
  if (e.op() != nested) return {IndexAt((e - b) * sign)};
  std::vector<IndexAt> out = differences(e.lhs(), nested, b, sign);
  std::ranges::move(differences(e.rhs(), nested, b, sign), std::back_inserter(out));
  return out;
}

std::function<bool(PointSet::Point)> all_not_negative(std::vector<IndexAt> sums) {
  return [all = std::move(sums)](PointSet::Point point) {
    return std::ranges::all_of(all, [&](const IndexAt& sum) { return sum(point) >= 0; });
  };
}

/// The integers that were marked: an interval where they have no gaps.
class Marks {
 public:
  explicit Marks(Interval range)
      : first_(range.lo), marked_(static_cast<size_t>(range.hi - range.lo + 1), false) {}
  void add(int64_t value) { marked_[static_cast<size_t>(value - first_)] = true; }
  void move_to(PointSet::Image* image) const {
    const auto begin = std::ranges::find(marked_, true);
    if (begin == marked_.end()) return;
    const auto end = std::find(marked_.rbegin(), marked_.rend(), true).base();
    const auto value_at = [&](auto it) { return first_ + (it - marked_.begin()); };
    if (std::find(begin, end, false) == end) {
      image->dense = {value_at(begin), value_at(end) - 1};
      return;
    }
    for (auto it = begin; it != end; ++it) {
      if (*it) image->tuples.push_back({value_at(it)});
    }
  }

 private:
  int64_t first_;
  std::vector<bool> marked_;
};

/// The value of a scalar of index variables alone.
ScalarValue evaluate_indices(const Scalar& s, PointSet::Point point) {
  switch (s.kind) {
    case Scalar::Kind::kConstant:
      return s.value;
    case Scalar::Kind::kIndex:
      return convert_value(int_value(DType::kI64, IndexAt(s.index)(point)), s.type);
    case Scalar::Kind::kRead:
      break;
    case Scalar::Kind::kApply: {
      std::vector<ScalarValue> operands;
      for (const ScalarRef& operand : s.operands) {
        operands.push_back(evaluate_indices(*operand, point));
      }
      return evaluate_scalar(s.op, operands, s.type);
    }
  }
  return int_value(DType::kBool, 1);
}

}  // namespace

PointSet::PointSet(const TileStructure& structure, const std::set<TileVarId>& vars,
                   const std::set<TileVarId>& free)
    : structure_(structure), vars_(vars.begin(), vars.end()) {
  // The set grows while it is walked: bounds depend on outer loops, whose bounds depend on others.
  for (size_t i = 0; i < vars_.size(); ++i) {  // NOLINT(modernize-loop-convert)
    if (structure.dim_of.count(vars_[i]) == 0 || free.count(vars_[i]) != 0) continue;
    const TileLoop::Dim& dim = structure.dim(vars_[i]);
    add(dim.origin);
    for (const IndexExpr& e : {dim.begin, dim.end}) {
      for (const int id : variables(e)) add(id);
    }
  }
  std::sort(vars_.begin(), vars_.end());
  env_.assign(structure.program->vars.size(), 0);
  for (size_t i = 0; i < env_.size(); ++i) {
    const TileVar& var = structure.program->vars[i];
    if (var.kind == TileVar::Kind::kSize) env_[i] = var.extent;
  }
  for (const TileVarId var : vars_) {
    if (structure.dim_of.count(var) == 0 || free.count(var) != 0) continue;
    add_loop_bounds(var, structure.dim(var));
  }
}

/// Loops of constant bounds need no predicate for their origins, and none for their offsets where
/// the step divides.
void PointSet::add_loop_bounds(TileVarId var, const TileLoop::Dim& dim) {
  const RangeOf range = structure_.range();
  const IndexExpr begin = simplify(dim.begin, range), end = simplify(dim.end, range);
  const bool constant = begin.is_const() && end.is_const() && begin.constant() < end.constant();
  if (constant && (var == dim.origin || (end.constant() - begin.constant()) % dim.step == 0)) {
    return;
  }
  std::set<TileVarId> tied{var, dim.origin};
  tied.merge(variables_of(begin));
  tied.merge(variables_of(end));
  if (var == dim.offset) {
    tails_[var] = predicates_.size();
    const IndexExpr at = IndexExpr::var(dim.origin) + IndexExpr::var(dim.offset);
    add_predicate(tied, all_not_negative(differences(end, IndexOp::kMin, at + 1, 1)), var);
    return;
  }
  const IndexExpr at = IndexExpr::var(dim.origin);
  std::vector<IndexAt> bounds = differences(end, IndexOp::kMin, at + 1, 1);
  if (dim.step == 1) {
    std::ranges::copy(differences(begin, IndexOp::kMax, at, -1), std::back_inserter(bounds));
    add_predicate(tied, all_not_negative(std::move(bounds)), var);
    return;
  }
  const IndexAt passed(at - begin);
  const auto holds = [passed, step = dim.step,
                      before_end = all_not_negative(std::move(bounds))](Point point) {
    const int64_t from_first = passed(point);
    return from_first >= 0 && from_first % step == 0 && before_end(point);
  };
  add_predicate(tied, holds, var);
}

void PointSet::add(TileVarId var) {
  if (structure_.program->vars[static_cast<size_t>(var)].kind == TileVar::Kind::kSize) return;
  if (std::find(vars_.begin(), vars_.end(), var) == vars_.end()) vars_.push_back(var);
}

void PointSet::add_predicate(const std::set<TileVarId>& vars, std::function<bool(Point)> holds,
                             TileVarId bounds) {
  Predicate p{{}, std::move(holds), bounds};
  for (const TileVarId var : vars) {
    if (std::find(vars_.begin(), vars_.end(), var) != vars_.end()) p.vars.push_back(var);
  }
  predicates_.push_back(std::move(p));
}

void PointSet::add_bounds(const IndexExpr& e, Interval range) {
  add_constraint(e, range, /*excluded=*/false);
}

void PointSet::add_constraint(const IndexExpr& e, Interval range, bool excluded) {
  add_predicate(variables_of(e), [at = IndexAt(e), range, excluded](Point point) {
    return range.contains(at(point)) != excluded;
  });
}

void PointSet::add_guard(const Guard& guard) {
  bool complete = true;
  const std::vector<Constraint> constraints = constraints_of({guard}, &complete);
  bool of_indices = true;
  std::set<TileVarId> vars;
  visit(std::make_shared<const Scalar>(*guard.condition), [&](const Scalar& s) {
    of_indices = of_indices && s.kind != Scalar::Kind::kRead;
    if (s.kind == Scalar::Kind::kIndex) vars.merge(variables_of(s.index));
  });
  if (!complete && of_indices) {
    return add_predicate(vars, [guard](Point point) {
      return (evaluate_indices(*guard.condition, point).i != 0) == guard.holds;
    });
  }
  for (const Constraint& c : constraints) {
    if (complete || !c.excluded) add_constraint(c.e, c.range, c.excluded);
  }
}

int64_t PointSet::count(const std::set<TileVarId>& shown, int64_t most) const {
  int64_t product = 1;
  for (const std::vector<TileVarId>& part : parts({})) {
    const bool all =
        std::all_of(part.begin(), part.end(), [&](TileVarId v) { return shown.count(v) != 0; });
    if (const auto points = all ? points_of_loop(part) : std::nullopt) {
      product *= *points;
      continue;
    }
    // An offset that only its own tail restricts is counted, not enumerated.
    std::vector<TileVarId> walked, counted;
    for (const TileVarId var : part) (all && only_tail(var) ? counted : walked).push_back(var);
    std::set<std::vector<int64_t>> projected;
    int64_t points = 0;
    const bool done = enumerate(walked, counted, all ? most : std::min(most, kMostTuples), [&] {
      int64_t here = 1;
      for (const TileVarId var : counted) {
        const TileLoop::Dim& dim = structure_.dim(var);
        const int64_t left = IndexAt(dim.end)(env_) - env_[static_cast<size_t>(dim.origin)];
        here *= std::clamp<int64_t>(left, 0, dim.step);
      }
      points += here;
      if (all) return;
      std::vector<int64_t> point;
      for (const TileVarId var : part) {
        if (shown.count(var) != 0) point.push_back(env_[static_cast<size_t>(var)]);
      }
      projected.insert(std::move(point));
    });
    if (!done) return -1;
    product *= all ? points : static_cast<int64_t>(projected.size());
  }
  return product;
}

int64_t PointSet::bound() const {
  double points = 1;
  for (const TileVarId var : vars_) {
    const Interval r = structure_.ranges[static_cast<size_t>(var)];
    points *= static_cast<double>((r.hi - r.lo) / step(var) + 1);
  }
  return points < 1e15 ? static_cast<int64_t>(points) : int64_t{1000000000000000};
}

bool PointSet::only_tail(TileVarId var) const {
  const auto tail = tails_.find(var);
  if (tail == tails_.end()) return false;
  for (size_t i = 0; i < predicates_.size(); ++i) {
    const std::vector<TileVarId>& vars = predicates_[i].vars;
    if (i != tail->second && std::find(vars.begin(), vars.end(), var) != vars.end()) return false;
  }
  return true;
}

/// Of a variable that nothing restricts, or of one loop's origin and offset: iterations times their
/// elements. Nothing where predicates say more than where the loop ends.
std::optional<int64_t> PointSet::points_of_loop(const std::vector<TileVarId>& part) const {
  const TileVarId v = part[0];
  if (part.size() == 1 && is_free(v)) {
    const Interval r = structure_.ranges[static_cast<size_t>(v)];
    return (r.hi - r.lo) / step(v) + 1;
  }
  if (part.size() != 2 || structure_.dim_of.count(v) == 0) return std::nullopt;
  const TileLoop::Dim& dim = structure_.dim(v);
  const bool pair = std::minmax(part[0], part[1]) == std::minmax(dim.origin, dim.offset);
  const auto run = pair ? run_of(dim) : std::nullopt;
  if (!run) return std::nullopt;
  return run->second;
}

/// Whether no predicate restricts the variable.
bool PointSet::is_free(TileVarId var) const {
  return std::ranges::none_of(predicates_, [&](const Predicate& p) {
    return p.vars.empty() || std::ranges::find(p.vars, var) != p.vars.end();
  });
}

/// Begin and length of a loop of constant bounds whose origin and offset only its tail restricts.
std::optional<std::pair<int64_t, int64_t>> PointSet::run_of(const TileLoop::Dim& dim) const {
  const RangeOf range = structure_.range();
  const IndexExpr begin = simplify(dim.begin, range), end = simplify(dim.end, range);
  if (!begin.is_const() || !end.is_const() || begin.constant() >= end.constant()) {
    return std::nullopt;
  }
  const auto tail = dim.offset < 0 ? tails_.end() : tails_.find(dim.offset);
  for (size_t i = 0; i < predicates_.size(); ++i) {
    if (tail != tails_.end() && i == tail->second) continue;
    const std::vector<TileVarId>& vars = predicates_[i].vars;
    const auto restricts = [&](TileVarId v) {
      return v >= 0 && std::ranges::find(vars, v) != vars.end();
    };
    if (vars.empty() || restricts(dim.origin) || restricts(dim.offset)) return std::nullopt;
  }
  return std::pair(begin.constant(), end.constant() - begin.constant());
}

/// The values of an index that is a sum of digits, each of which fills the gaps of those above it;
/// empty where it is not, or predicates say more than where loops end.
///     i-.i + .i of `seq i in 100 step 64`, 2 * h + w with w < 2   ->  [0, 99], [0, 2h + 1]
Interval PointSet::dense_image(const IndexExpr& e, const std::vector<TileVarId>& part) const {
  constexpr Interval kNone{0, -1};
  const IndexExpr bound = substitute(e, [&](int id) {
    const bool size =
        structure_.program->vars[static_cast<size_t>(id)].kind == TileVar::Kind::kSize;
    return size ? IndexExpr(env_[static_cast<size_t>(id)]) : IndexExpr::var(id);
  });
  AffineForm form;
  if (!as_affine(bound, &form)) return kNone;
  std::vector<std::pair<int64_t, int64_t>> digits;  // coefficient, extent
  int64_t lo = form.constant;
  for (const TileVarId v : part) {
    const auto found = structure_.dim_of.find(v);
    const int64_t c = form.coefficient(v);
    if (found == structure_.dim_of.end()) {
      if (!is_free(v)) return kNone;
      digits.emplace_back(c, structure_.program->vars[static_cast<size_t>(v)].extent);
      continue;
    }
    const TileLoop::Dim& dim = structure_.dim(v);
    const auto run = run_of(dim);
    if (!run) return kNone;
    if (dim.offset < 0) {
      digits.emplace_back(c, run->second);
    } else if (std::ranges::find(part, dim.origin) == part.end() ||
               std::ranges::find(part, dim.offset) == part.end() ||
               form.coefficient(dim.origin) != form.coefficient(dim.offset)) {
      return kNone;
    } else if (v == dim.offset) {
      continue;  // the origin stands for both
    } else {
      digits.emplace_back(c, run->second);
    }
    lo += c * run->first;
  }
  for (auto& [c, extent] : digits) {
    if (c < 0) lo += c * (extent - 1);
    c = std::abs(c);
  }
  std::ranges::sort(digits);
  int64_t reach = 0;
  for (const auto& [c, extent] : digits) {
    if (extent < 1 || c > reach + 1) return kNone;
    reach += c * (extent - 1);
  }
  return {lo, lo + reach};
}

/// The widest range of an index that is marked value by value.
constexpr int64_t kMostMarked = int64_t{1} << 20;

bool PointSet::images(const std::vector<IndexExpr>& indices, std::vector<Image>* out,
                      int64_t most) const {
  std::vector<std::set<TileVarId>> joined;
  for (const IndexExpr& e : indices) joined.push_back(variables_of(e));
  for (const std::vector<TileVarId>& part : parts(joined)) {
    Image image;
    for (size_t a = 0; a < indices.size(); ++a) {
      const bool inside = std::any_of(part.begin(), part.end(),
                                      [&](TileVarId v) { return joined[a].count(v) != 0; });
      if (inside) image.axes.push_back(a);
    }
    if (image.axes.size() == 1) image.dense = dense_image(indices[image.axes[0]], part);
    if (!image.dense.empty()) {
      out->push_back(std::move(image));
      continue;
    }
    if (image.axes.size() == 1) {
      const Interval within = range_of(indices[image.axes[0]], structure_.range());
      if (within.hi - within.lo < kMostMarked) {
        Marks marks(within);
        const IndexAt at(indices[image.axes[0]]);
        if (!enumerate(part, {}, most, [&] { marks.add(at(env_)); })) return false;
        marks.move_to(&image);
        out->push_back(std::move(image));
        continue;
      }
    }
    std::vector<IndexAt> at;
    for (const size_t a : image.axes) at.emplace_back(indices[a]);
    std::vector<int64_t> tuple(at.size());
    const bool done = enumerate(part, {}, most, [&] {
      for (size_t k = 0; k < at.size(); ++k) tuple[k] = at[k](env_);
      if (image.tuples.empty() || image.tuples.back() != tuple) image.tuples.push_back(tuple);
    });
    if (!done) return false;
    std::ranges::sort(image.tuples);
    image.tuples.erase(std::ranges::unique(image.tuples).begin(), image.tuples.end());
    // A part without an axis only says whether there is a point at all.
    if (!image.axes.empty() || image.tuples.empty()) out->push_back(std::move(image));
  }
  for (size_t a = 0; a < indices.size(); ++a) {
    const bool moves = std::any_of(vars_.begin(), vars_.end(),
                                   [&](TileVarId v) { return joined[a].count(v) != 0; });
    if (moves) continue;
    const int64_t at = IndexAt(indices[a])(env_);
    out->push_back({{a}, {at, at}, {}});
  }
  return true;
}

int64_t PointSet::size(const std::vector<Image>& images) {
  int64_t n = 1;
  for (const Image& image : images) n *= image.size();
  return n;
}

void PointSet::for_each_offset(const std::vector<Image>& images, const Shape& shape,
                               const std::vector<int64_t>& base,
                               const std::function<void(int64_t)>& visit_offset) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t a = shape.size(); a-- > 1;) strides[a - 1] = strides[a] * shape[a];
  const std::function<void(size_t, int64_t)> descend = [&](size_t next, int64_t offset) {
    if (next == images.size()) return visit_offset(offset);
    const Interval& dense = images[next].dense;
    for (int64_t i = dense.lo; i <= dense.hi; ++i) {
      const size_t a = images[next].axes[0];
      descend(next + 1, offset + (i - base[a]) * strides[a]);
    }
    for (const std::vector<int64_t>& tuple : images[next].tuples) {
      int64_t at = offset;
      for (size_t k = 0; k < tuple.size(); ++k) {
        const size_t a = images[next].axes[k];
        at += (tuple[k] - base[a]) * strides[a];
      }
      descend(next + 1, at);
    }
  };
  descend(0, 0);
}

/// Variables in classes that predicates and the `joined` sets keep together.
std::vector<std::vector<TileVarId>> PointSet::parts(
    const std::vector<std::set<TileVarId>>& joined) const {
  std::map<TileVarId, TileVarId> root;
  for (const TileVarId var : vars_) root[var] = var;
  const auto find = [&](TileVarId var) {
    while (root.at(var) != var) var = root.at(var);
    return var;
  };
  const auto unite = [&](const auto& vars) {
    TileVarId first = -1;
    for (const TileVarId var : vars) {
      if (root.count(var) == 0) continue;
      if (first < 0) first = var;
      root[find(var)] = find(first);
    }
  };
  for (const Predicate& p : predicates_) unite(p.vars);
  for (const auto& vars : joined) unite(vars);
  std::map<TileVarId, std::vector<TileVarId>> classes;
  for (const TileVarId var : vars_) classes[find(var)].push_back(var);
  std::vector<std::vector<TileVarId>> out;
  for (auto& [key, members] : classes) out.push_back(std::move(members));
  return out;
}

/// Origins stand a step apart where their first one is a constant; elsewhere every integer is
/// tried.
int64_t PointSet::step(TileVarId var) const {
  if (structure_.program->vars[static_cast<size_t>(var)].kind != TileVar::Kind::kOrigin) return 1;
  const TileLoop::Dim& dim = structure_.dim(var);
  const bool constant = dim.begin.is_const() || simplify(dim.begin, structure_.range()).is_const();
  return constant ? dim.step : 1;
}

bool PointSet::is_bounded(TileVarId var) const {
  return std::ranges::find(predicates_, var, &Predicate::bounds) != predicates_.end();
}

/// The variables of a part, each behind those that the bounds of its loop depend on: then these say
/// what there is to go through.
std::vector<PointSet::Walk> PointSet::walks(const std::vector<TileVarId>& part) const {
  std::vector<Walk> out;
  const auto has_value = [&](TileVarId v) {
    return structure_.program->vars[static_cast<size_t>(v)].kind == TileVar::Kind::kSize ||
           std::ranges::find(out, v, &Walk::var) != out.end();
  };
  const std::function<void(TileVarId)> place = [&](TileVarId v) {
    if (has_value(v) || std::ranges::find(part, v) == part.end()) return;
    Walk walk{v, structure_.ranges[static_cast<size_t>(v)], step(v), nullptr};
    if (is_bounded(v)) {
      const TileLoop::Dim& dim = structure_.dim(v);
      std::set<TileVarId> needed = variables_of(dim.begin);
      needed.merge(variables_of(dim.end));
      if (v == dim.offset) needed.insert(dim.origin);
      for (const TileVarId n : needed) place(n);
      if (std::ranges::all_of(needed, has_value)) walk.dim = &dim;
    }
    out.push_back(walk);
  };
  for (const TileVarId v : part) place(v);
  return out;
}

bool PointSet::enumerate(const std::vector<TileVarId>& part, const std::vector<TileVarId>& left_out,
                         int64_t limit, const std::function<void()>& visit_point) const {
  double points = 1;
  const std::vector<Walk> walks = this->walks(part);
  for (const Walk& walk : walks)
    points *= static_cast<double>((walk.range.hi - walk.range.lo) / walk.step + 1);
  if (points > static_cast<double>(limit)) return false;
  std::vector<IndexAt> begins, ends;  // by variable; of those that no loop bounds, of its range
  for (const Walk& walk : walks) {
    const bool of_loop = walk.dim != nullptr && walk.var == walk.dim->origin;
    begins.emplace_back(of_loop ? walk.dim->begin : IndexExpr(walk.range.lo));
    ends.emplace_back(walk.dim != nullptr ? walk.dim->end : IndexExpr(walk.range.hi + 1));
  }
  // Each predicate is asked where the last of its variables gets its value.
  std::vector<std::vector<const Predicate*>> decided(walks.size() + 1);
  for (const Predicate& p : predicates_) {
    size_t depth = 0;
    bool is_walked = false;
    for (size_t i = 0; i < walks.size(); ++i) {
      if (std::ranges::find(p.vars, walks[i].var) != p.vars.end()) depth = i + 1;
      is_walked |= walks[i].var == p.bounds && walks[i].dim != nullptr;
    }
    const bool left = std::ranges::any_of(
        left_out, [&](TileVarId v) { return std::ranges::find(p.vars, v) != p.vars.end(); });
    // One without variables of the set says the same everywhere.
    if (p.vars.empty() || (depth > 0 && !left && !is_walked)) decided[depth].push_back(&p);
  }
  const auto holds = [&](size_t depth) {
    return std::ranges::all_of(decided[depth], [&](const Predicate* p) { return p->holds(env_); });
  };
  const std::function<void(size_t)> descend = [&](size_t depth) {
    if (depth == walks.size()) return visit_point();
    const Walk& walk = walks[depth];
    int64_t begin = begins[depth](env_), end = ends[depth](env_), step = walk.step;
    if (walk.dim != nullptr && walk.var == walk.dim->origin) {
      step = walk.dim->step;
    } else if (walk.dim != nullptr) {  // an offset
      end = std::min(walk.dim->step, end - env_[static_cast<size_t>(walk.dim->origin)]);
    }
    int64_t& v = env_[static_cast<size_t>(walk.var)];
    for (v = begin; v < end; v += step) {
      if (holds(depth + 1)) descend(depth + 1);
    }
  };
  if (holds(0)) descend(0);
  return true;
}

}  // namespace weft

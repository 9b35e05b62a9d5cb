#include "tile/tile_structure.h"

#include <algorithm>
#include <span>

#include "index/index_terms.h"

namespace weft {
namespace {

/// Whether an expression shows that it is one.
bool is_multiple(const IndexExpr& e, int64_t step) {
  if (e.is_const()) return e.constant() % step == 0;
  return e.op() == IndexOp::kMul && (is_multiple(e.lhs(), step) || is_multiple(e.rhs(), step)) &&
         (e.lhs().is_const() || e.rhs().is_const());
}

class Collector {
 public:
  explicit Collector(const TileProgram& program) : program_(program) {
    out_.program = &program;
    out_.definition.assign(program.symbols.size(), -1);
    out_.updates.resize(program.symbols.size());
    out_.ranges.assign(program.vars.size(), kUnbounded);
    for (size_t i = 0; i < program.vars.size(); ++i) {
      const TileVar& var = program.vars[i];
      if (var.kind == TileVar::Kind::kSize) {
        out_.ranges[i] =
            var.extent > 0 ? Interval{var.extent, var.extent} : Interval{1, kUnbounded.hi};
      } else if (var.kind != TileVar::Kind::kOrigin) {
        out_.ranges[i] = {0, std::max<int64_t>(var.extent - 1, 0)};
      }
    }
  }

  TileStructure run() {
    body(program_.body);
    return std::move(out_);
  }

 private:
  void body(const TileBody& nodes) {
    path_.push_back(0);
    for (const TileNode& node : nodes) {
      switch (node.kind) {
        case TileNode::Kind::kStatement:
          statement(node.statement);
          break;
        case TileNode::Kind::kLoop:
          loop(*node.loop);
          break;
        case TileNode::Kind::kCondition:
          condition(*node.condition);
          break;
        case TileNode::Kind::kPack:
          pack(*node.pack);
          break;
      }
      ++path_.back();
    }
    path_.pop_back();
  }

  Site here(Site::Kind kind, ScalarRef value) const {
    Site site;
    site.kind = kind;
    site.value = std::move(value);
    site.path = path_;
    site.loops = loops_;
    site.guards = guards_;
    site.pack_member = member_;
    return site;
  }

  void statement(const TileStatement& s) {
    Site site = here(Site::Kind::kStatement, s.value);
    site.statement = &s;
    const int32_t number = add(std::move(site));
    for (const TileRef& target : s.targets) {
      if (target.symbol < 0) continue;
      const size_t id = static_cast<size_t>(target.symbol);
      if (program_.symbols[id].kind == TileSymbol::Kind::kValue) {
        if (out_.definition[id] < 0) out_.definition[id] = number;
      } else {
        out_.updates[id].push_back(number);
      }
    }
  }

  void loop(const TileLoop& l) {
    out_.loop_path[&l] = path_;
    for (const TileCarry& carry : l.carries) {
      Site site = here(Site::Kind::kCarry, carry.initial);
      site.loop = &l;
      site.carry = &carry;
      const int32_t number = add(std::move(site));
      if (carry.target.symbol >= 0) {
        out_.definition[static_cast<size_t>(carry.target.symbol)] = number;
      }
    }
    for (size_t d = 0; d < l.dims.size(); ++d) {
      const TileLoop::Dim& dim = l.dims[d];
      out_.dim_of[dim.origin] = {&l, static_cast<int32_t>(d)};
      if (dim.offset >= 0) out_.dim_of[dim.offset] = {&l, static_cast<int32_t>(d)};
      const RangeOf range = out_.range();
      const int64_t lo = range_of(dim.begin, range).lo;
      int64_t hi = range_of(dim.end, range).hi - 1;
      // The last origin, where the first is known, or that it is a multiple of the step.
      if (dim.begin.is_const() && hi >= lo) hi = lo + (hi - lo) / dim.step * dim.step;
      if (is_multiple(dim.begin, dim.step) && hi >= 0) hi = hi / dim.step * dim.step;
      out_.ranges[static_cast<size_t>(dim.origin)] = {lo, std::max(lo, hi)};
    }
    const int32_t first = static_cast<int32_t>(out_.sites.size());
    loops_.push_back(&l);
    body(l.body);
    loops_.pop_back();
    out_.loop_sites[&l] = {first, static_cast<int32_t>(out_.sites.size())};
  }

  void condition(const TileCondition& c) {
    add(here(Site::Kind::kCondition, c.condition));
    guards_.push_back({c.condition.get(), true});
    body(c.body);
    guards_.pop_back();
  }

  void pack(const TilePack& p) {
    path_.push_back(0);
    const int32_t outer = member_;
    for (const TilePack::Member& member : p.members) {
      member_ = static_cast<int32_t>(out_.pack_shares.size());
      out_.pack_shares.push_back(member.share);
      body(member.body);
      ++path_.back();
    }
    member_ = outer;
    path_.pop_back();
  }

  int32_t add(Site site) {
    const int32_t number = static_cast<int32_t>(out_.sites.size());
    collect_reads(site, number);
    out_.sites.push_back(std::move(site));
    return number;
  }

  /// Each distinct node once, under the guards that all of its uses share.
  void collect_reads(const Site& site, int32_t number) {
    std::vector<const Scalar*> order;
    visit(site.value, [&](const Scalar& s) { order.push_back(&s); });
    std::map<const Scalar*, std::vector<Guard>> under;
    under[site.value.get()] = site.guards;
    std::sort(under[site.value.get()].begin(), under[site.value.get()].end());
    const auto use = [&](const ScalarRef& operand, std::vector<Guard> guards) {
      const auto [it, fresh] = under.emplace(operand.get(), guards);
      if (fresh) return;
      std::vector<Guard> both;
      std::set_intersection(it->second.begin(), it->second.end(), guards.begin(), guards.end(),
                            std::back_inserter(both));
      it->second = std::move(both);
    };
    // Of conditions that say the same, the first stands for all.
    std::vector<ScalarRef> conditions;
    const auto known = [&](const ScalarRef& condition) {
      const auto same =
          std::ranges::find_if(conditions, [&](const ScalarRef& c) { return equal(c, condition); });
      if (same != conditions.end()) return same->get();
      conditions.push_back(condition);
      return condition.get();
    };
    const size_t first = out_.reads.size();
    for (size_t i = order.size(); i-- > 0;) {
      const Scalar& s = *order[i];
      const std::vector<Guard> guards = under[&s];
      const bool selects = s.kind == Scalar::Kind::kApply && s.op == ScalarOp::kSelect;
      for (size_t k = 0; k < s.operands.size(); ++k) {
        std::vector<Guard> inner = guards;
        if (selects && k > 0) {
          inner.push_back({known(s.operands[0]), k == 1});
          std::sort(inner.begin(), inner.end());
        }
        use(s.operands[k], std::move(inner));
      }
      if (s.fill) use(s.fill, guards);
      if (s.kind == Scalar::Kind::kRead) out_.reads.push_back({number, &s, guards, false});
    }
    // In the order of the text.
    std::reverse(out_.reads.begin() + static_cast<std::ptrdiff_t>(first), out_.reads.end());
    for (size_t i = first; i < out_.reads.size(); ++i) {
      for (size_t k = first; k < i && !out_.reads[i].repeated; ++k) {
        out_.reads[i].repeated = out_.reads[k].guards == out_.reads[i].guards &&
                                 same_read(*out_.reads[k].read, *out_.reads[i].read);
      }
    }
  }

  static bool same_read(const Scalar& a, const Scalar& b) {
    if (a.symbol != b.symbol || a.next != b.next || a.indices != b.indices ||
        a.operands.size() != b.operands.size() || (a.fill == nullptr) != (b.fill == nullptr)) {
      return false;
    }
    for (size_t i = 0; i < a.operands.size(); ++i) {
      if (!equal(a.operands[i], b.operands[i])) return false;
    }
    return !a.fill || equal(a.fill, b.fill);
  }

  const TileProgram& program_;
  TileStructure out_;
  std::vector<int32_t> path_;
  std::vector<const TileLoop*> loops_;
  std::vector<Guard> guards_;
  int32_t member_ = -1;
};

}  // namespace

RangeOf TileStructure::range_of_pairs() const {
  return [this](int id) {
    const Interval own = range()(id);
    const auto found = dim_of.find(id);
    if (found == dim_of.end() || own.lo != own.hi) return own;
    const TileLoop::Dim& dim = this->dim(id);
    return id == dim.origin && dim.offset >= 0 ? Interval{own.lo, own.lo + dim.step} : own;
  };
}

RangeOf TileStructure::range() const {
  return [this](int id) {
    return id >= 0 && id < static_cast<int>(ranges.size()) ? ranges[static_cast<size_t>(id)]
                                                           : kUnbounded;
  };
}

const TileLoop::Dim& TileStructure::dim(TileVarId var) const {
  const auto& [loop, number] = dim_of.at(var);
  return loop->dims[static_cast<size_t>(number)];
}

std::vector<const ReadSite*> TileStructure::reads_of(TileSymbolId symbol) const {
  std::vector<const ReadSite*> out;
  for (const ReadSite& read : reads) {
    if (read.read->symbol == symbol) out.push_back(&read);
  }
  return out;
}

std::vector<const TileLoop*> TileStructure::common(const std::vector<const TileLoop*>& a,
                                                   const std::vector<const TileLoop*>& b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return {a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n)};
}

TileStructure structure_of(const TileProgram& program) { return Collector(program).run(); }

void add_box_variables(const TileProgram& program, const IndexExpr& e, std::set<TileVarId>* vars) {
  for (const int id : variables(e)) {
    if (id >= kRuntimeIndexBase) continue;
    const TileVar::Kind kind = program.vars[static_cast<size_t>(id)].kind;
    if (kind == TileVar::Kind::kOffset || kind == TileVar::Kind::kAxis) vars->insert(id);
  }
}

void add_box_variables(const TileProgram& program, const ScalarRef& s, std::set<TileVarId>* vars) {
  visit(s, [&](const Scalar& node) {
    if (node.kind == Scalar::Kind::kIndex) add_box_variables(program, node.index, vars);
    for (const IndexExpr& e : node.indices) add_box_variables(program, e, vars);
  });
}

std::vector<TileVarId> box_of(const TileProgram& program, const TileStatement& statement) {
  std::set<TileVarId> vars;
  for (const TileRef& target : statement.targets) {
    for (const IndexExpr& e : target.indices) add_box_variables(program, e, &vars);
  }
  add_box_variables(program, statement.value, &vars);
  vars.insert(statement.reduce_axes.begin(), statement.reduce_axes.end());
  return {vars.begin(), vars.end()};
}

namespace {

bool index_value(const Scalar& s, IndexExpr* out) {
  if (s.kind == Scalar::Kind::kIndex) {
    *out = s.index;
    return is_integer(s.type);
  }
  if (s.kind == Scalar::Kind::kConstant && is_integer(s.type)) {
    *out = s.value.i;
    return true;
  }
  return false;
}

void add_constraints(const Scalar& s, bool holds, bool* complete, std::vector<Constraint>* out) {
  if (s.kind != Scalar::Kind::kApply) {
    *complete = false;
    return;
  }
  if (s.op == ScalarOp::kNot) return add_constraints(*s.operands[0], !holds, complete, out);
  if ((s.op == ScalarOp::kAnd && holds) || (s.op == ScalarOp::kOr && !holds)) {
    add_constraints(*s.operands[0], holds, complete, out);
    add_constraints(*s.operands[1], holds, complete, out);
    return;
  }
  IndexExpr a, b;
  if (!scalar_op_is_comparison(s.op) || !index_value(*s.operands[0], &a) ||
      !index_value(*s.operands[1], &b)) {
    *complete = false;
    return;
  }
  const IndexExpr d = a - b;
  ScalarOp op = s.op;
  if (!holds) {
    op = op == ScalarOp::kLt   ? ScalarOp::kGe
         : op == ScalarOp::kGe ? ScalarOp::kLt
         : op == ScalarOp::kLe ? ScalarOp::kGt
         : op == ScalarOp::kGt ? ScalarOp::kLe
         : op == ScalarOp::kEq ? ScalarOp::kNe
                               : ScalarOp::kEq;
  }
  switch (op) {
    case ScalarOp::kLt:
      out->push_back({d, {kUnbounded.lo, -1}, false});
      break;
    case ScalarOp::kLe:
      out->push_back({d, {kUnbounded.lo, 0}, false});
      break;
    case ScalarOp::kGt:
      out->push_back({d, {1, kUnbounded.hi}, false});
      break;
    case ScalarOp::kGe:
      out->push_back({d, {0, kUnbounded.hi}, false});
      break;
    case ScalarOp::kEq:
      out->push_back({d, {0, 0}, false});
      break;
    default:
      out->push_back({d, {0, 0}, true});
      break;
  }
}

Interval meet(const Interval& a, const Interval& b) {
  return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
}

/// Narrows c*v + rest ∈ range to v's own interval.
void narrow(const Constraint& c, std::map<int, Interval>& ranges, const RangeOf& range) {
  AffineForm form;
  if (!as_affine(c.e, &form)) return;
  if (c.excluded) {
    if (form.terms.size() != 1 || std::abs(form.terms[0].second) != 1) return;
    const auto [var, k] = form.terms[0];
    const int64_t hole = -form.constant * k;
    Interval r = range(var);
    if (r.lo == hole) ++r.lo;
    if (r.hi == hole) --r.hi;
    ranges[var] = r;
    return;
  }
  for (const auto& [var, k] : form.terms) {
    IndexExpr rest = form.constant;
    for (const auto& [other, factor] : form.terms) {
      if (other != var) rest = rest + IndexExpr::var(other) * factor;
    }
    const Interval around = range_of(rest, range);
    // k*v lies in [lo - rest.hi, hi - rest.lo].
    const int64_t lo = c.range.lo - around.hi;
    const int64_t hi = c.range.hi - around.lo;
    const auto down = [](int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); };
    Interval own{};
    if (k > 0) {
      own = {-down(-lo, k), down(hi, k)};
    } else {
      own = {-down(hi, -k), down(-lo, -k)};
    }
    ranges[var] = meet(range(var), own);
  }
}

}  // namespace

std::vector<Constraint> constraints_of(const std::vector<Guard>& guards, bool* complete) {
  bool all = true;
  std::vector<Constraint> out;
  for (const Guard& guard : guards) add_constraints(*guard.condition, guard.holds, &all, &out);
  if (complete != nullptr) *complete = all;
  return out;
}

namespace {

/// a - times * b; the terms of both are in order.
AffineForm minus(const AffineForm& a, const AffineForm& b, int64_t times) {
  AffineForm out;
  out.terms.reserve(a.terms.size() + b.terms.size());
  auto of_b = b.terms.begin();
  for (const auto& [var, k] : a.terms) {
    for (; of_b != b.terms.end() && of_b->first < var; ++of_b)
      out.terms.emplace_back(of_b->first, -of_b->second * times);
    const bool both = of_b != b.terms.end() && of_b->first == var;
    const int64_t left = both ? k - of_b++->second * times : k;
    if (left != 0) out.terms.emplace_back(var, left);
  }
  for (; of_b != b.terms.end(); ++of_b) out.terms.emplace_back(of_b->first, -of_b->second * times);
  out.constant = a.constant - b.constant * times;
  return out;
}

Interval range_of_form(const AffineForm& form, const RangeOf& range) {
  IndexExpr e = form.constant;
  for (const auto& [var, k] : form.terms) e = e + IndexExpr::var(var) * k;
  return range_of(e, range);
}

/// Bounds of `e` as multiples of `most` constrained expressions and a rest: an index over blocks of
/// elements with windows at the borders of both.
Interval range_of_sum(const AffineForm& e, std::span<const IndexBounds::Sum> parts,
                      const RangeOf& range, int most) {
  Interval out = range_of_form(e, range);
  for (size_t i = 0; i < parts.size() && most > 0; ++i) {
    const auto& [form, within] = parts[i];
    const auto& [var, coefficient] = form.terms.front();
    const int64_t k = e.coefficient(var) / coefficient;
    if (k == 0 || k * coefficient != e.coefficient(var)) continue;
    const Interval rest = range_of_sum(minus(e, form, k), parts.subspan(i + 1), range, most - 1);
    const int64_t lo = k > 0 ? within.lo : within.hi, hi = k > 0 ? within.hi : within.lo;
    if (std::abs(lo) < kUnbounded.hi) out.lo = std::max(out.lo, k * lo + rest.lo);
    if (std::abs(hi) < kUnbounded.hi) out.hi = std::min(out.hi, k * hi + rest.hi);
  }
  return out;
}

}  // namespace

std::optional<Constraint> without_quotient(const IndexExpr& index, const IndexExpr& bound,
                                           bool begins) {
  const std::vector<IndexExpr> terms = terms_of(bound);
  const auto divides = [](const IndexExpr& e) { return e.op() == IndexOp::kFloorDiv; };
  const auto quotient = std::ranges::find_if(terms, divides);
  if (quotient == terms.end() || std::ranges::count_if(terms, divides) > 1) return std::nullopt;
  const int64_t q = quotient->rhs().constant();
  const IndexExpr rest = bound - *quotient;
  const IndexExpr multiple = (index - rest) * q - quotient->lhs();
  // x - q < q * (x floordiv q) <= x
  if (begins) return Constraint{multiple, {1 - q, kUnbounded.hi}};
  return Constraint{multiple, {kUnbounded.lo, -q}};
}

IndexBounds::IndexBounds(const TileStructure& structure, std::vector<Constraint> constraints)
    : structure_(&structure),
      plain_(structure.range()),
      narrowed_([this](int id) {
        const auto found = ranges_.find(id);
        return found == ranges_.end() ? plain_(id) : found->second;
      }),
      constraints_(std::move(constraints)) {
  for (const Constraint& c : constraints_) narrow(c, ranges_, narrowed_);
  // Two rounds, so that a bound of one variable may narrow another that came earlier.
  for (const Constraint& c : constraints_) narrow(c, ranges_, narrowed_);
  impossible_ = std::ranges::any_of(ranges_, [](const auto& r) { return r.second.empty(); });
  for (const Constraint& c : constraints_) {
    std::optional<AffineForm> form = affine_form(c.e);
    if (form && !c.excluded && !form->terms.empty()) affine_.push_back({*form, c.range});
    forms_.push_back(form ? std::move(form) : affine_form(simplify(c.e, plain_)));
  }
}

std::optional<int64_t> IndexBounds::constant_less(const IndexExpr& e,
                                                  const std::optional<AffineForm>& form, size_t c,
                                                  int64_t times) const {
  if (!form && !forms_[c]) {
    const IndexExpr rest = simplify(e - constraints_[c].e * times, plain_);
    return rest.is_const() ? std::optional(rest.constant()) : std::nullopt;
  }
  if (!form || !forms_[c]) return std::nullopt;  // a quotient is left
  const AffineForm rest = minus(*form, *forms_[c], times);
  int64_t constant = rest.constant;
  for (const auto& [var, k] : rest.terms) {
    const Interval own = plain_(var);
    if (own.lo != own.hi) return std::nullopt;
    constant += k * own.lo;
  }
  return constant;
}

Interval IndexBounds::of(const IndexExpr& e) const {
  if (impossible_) return {0, -1};
  Interval result = range_of(simplify(e, narrowed_), narrowed_);
  if (constraints_.empty()) return result;
  std::optional<AffineForm> form = affine_form(e);
  const IndexExpr simple = form ? e : simplify(e, plain_);
  if (!form) form = affine_form(simple);
  for (size_t c = 0; c < constraints_.size(); ++c) {
    if (constraints_[c].excluded) continue;
    const Interval& within = constraints_[c].range;
    if (const auto more = constant_less(simple, form, c, 1))
      result = meet(result, {within.lo + *more, within.hi + *more});
    if (const auto sum = constant_less(simple, form, c, -1))
      result = meet(result, {*sum - within.hi, *sum - within.lo});
  }
  constexpr int kMostSummed = 3;
  return form ? meet(result, range_of_sum(*form, affine_, narrowed_, kMostSummed)) : result;
}

namespace {

/// The range of an inner sum, where origin + offset of one loop never reaches its end.
Interval inner_range(const IndexExpr& e, const IndexBounds& bounds) {
  const TileStructure& structure = bounds.structure();
  const Interval loose = bounds.of(e);
  AffineForm form;
  if (!as_affine(e, &form)) return loose;
  IndexExpr joined = form.constant;
  Interval ends{0, 0};
  bool goes_to_ends = false;
  for (const auto& [var, k] : form.terms) {
    const auto loop = structure.dim_of.find(var);
    if (loop != structure.dim_of.end()) {
      const TileLoop::Dim& dim = structure.dim(var);
      if (dim.offset >= 0 && form.coefficient(dim.origin) == form.coefficient(dim.offset)) {
        goes_to_ends = true;
        if (var != dim.origin) continue;
        const int64_t lo = range_of(dim.begin, structure.range()).lo;
        const int64_t hi = std::max(lo, range_of(dim.end, structure.range()).hi - 1);
        ends.lo += k > 0 ? k * lo : k * hi;
        ends.hi += k > 0 ? k * hi : k * lo;
        continue;
      }
    }
    joined = joined + IndexExpr::var(var) * k;
  }
  if (!goes_to_ends) return loose;
  const Interval rest = bounds.of(joined);
  return meet(loose, {rest.lo + ends.lo, rest.hi + ends.hi});
}

/// Most iterations times step that a loop from `begin` to `end` goes through; the smaller arm of a
/// min counts.
int64_t longest(const IndexExpr& begin, const IndexExpr& end, const TileStructure& structure) {
  if (end.op() == IndexOp::kMin) {
    return std::min(longest(begin, end.lhs(), structure), longest(begin, end.rhs(), structure));
  }
  return range_of(simplify(end - begin, structure.range()), structure.range()).hi;
}

IndexExpr count_from_begin(const IndexExpr& e, const TileStructure& structure,
                           const std::function<bool(TileVarId)>& fixed, Interval* around);

/// Of v / 2 in `seq v in 2 * h .. 2 * h + 4`: h, and `around` widens by 1. The quotient itself
/// where the loops begin elsewhere.
IndexExpr quotient_from_begin(const IndexExpr& e, const TileStructure& structure,
                              const std::function<bool(TileVarId)>& fixed, Interval* around) {
  const int64_t divisor = e.rhs().constant();
  Interval way{0, 0};
  const IndexExpr begin = count_from_begin(e.lhs(), structure, fixed, &way);
  IndexExpr quotient = simplify(floor_div(begin, divisor), structure.range_of_pairs());
  if (begin == e.lhs() || !(simplify(quotient * divisor - begin, structure.range()).is_const(0)))
    return e;
  around->lo += floor_div(IndexExpr(way.lo), divisor).constant();
  around->hi += floor_div(IndexExpr(way.hi), divisor).constant();
  return quotient;
}

/// Inner loops that begin where an outer one stands, `seq v in h-.h .. h-.h+8`, counted from there:
/// their origin (with their offset, where both move alike) becomes `begin`, and `around` widens by
/// the way they go.
IndexExpr count_from_begin(const IndexExpr& e, const TileStructure& structure,
                           const std::function<bool(TileVarId)>& fixed, Interval* around) {
  if (e.op() == IndexOp::kFloorDiv) return quotient_from_begin(e, structure, fixed, around);
  IndexExpr at = e;
  for (int round = 0; round < 8; ++round) {
    AffineForm form;
    if (!as_affine(at, &form)) return at;
    bool changed = false;
    for (const auto& [var, k] : form.terms) {
      const auto loop = structure.dim_of.find(var);
      if (loop == structure.dim_of.end()) continue;
      const TileLoop::Dim& dim = structure.dim(var);
      if (var != dim.origin || fixed(var) || dim.begin.is_const()) continue;
      const bool whole = dim.offset >= 0 && form.coefficient(dim.offset) == k;
      const int64_t length = std::max<int64_t>(longest(dim.begin, dim.end, structure), 1);
      if (length >= kUnbounded.hi) return e;
      at = at - IndexExpr::var(var) * k + dim.begin * k;
      if (whole) at = at - IndexExpr::var(dim.offset) * k;
      around->lo += k > 0 ? 0 : k * (length - 1);
      around->hi += k > 0 ? k * (length - 1) : 0;
      changed = true;
      break;
    }
    if (!changed) return simplify(at, structure.range_of_pairs());
  }
  return at;
}

}  // namespace

Coordinate coordinate_of(const IndexExpr& e, const IndexBounds& bounds,
                         const std::function<bool(TileVarId)>& fixed) {
  const TileStructure& structure = bounds.structure();
  const TileProgram& program = *structure.program;
  Interval around{0, 0};
  const IndexExpr simple =
      count_from_begin(simplify(e, structure.range_of_pairs()), structure, fixed, &around);
  Coordinate out;
  std::vector<IndexExpr> terms = terms_of(simple);
  for (const IndexExpr& term : terms) {
    bool any_outer = false, any_inner = false;
    for (const int id : variables(term)) {
      if (id >= kRuntimeIndexBase) {
        out.dynamic = any_inner = true;
        continue;
      }
      const TileVar::Kind kind = program.vars[static_cast<size_t>(id)].kind;
      const bool outer =
          kind == TileVar::Kind::kSize || (kind == TileVar::Kind::kOrigin && fixed(id));
      (outer ? any_outer : any_inner) = true;
    }
    if (any_outer && any_inner) out.separable = false;
    if (any_inner || term.is_const()) {
      out.rest = out.rest + term;
    } else {
      out.outer = out.outer + term;
    }
  }
  if (!out.separable) {
    out.outer = 0;
    out.rest = simple;
  }
  out.inner = inner_range(out.rest, bounds);
  if (!out.inner.empty()) out.inner = {out.inner.lo + around.lo, out.inner.hi + around.hi};
  // Nothing is fixed: the index has bounds of its own, which counting from a loop's begin may have
  // lost.
  if (out.outer.is_const(0)) {
    const IndexExpr own = simplify(e, structure.range_of_pairs());
    out.inner = meet(out.inner, inner_range(own, bounds));
  }
  return out;
}

}  // namespace weft

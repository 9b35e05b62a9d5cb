#include "lower/core/expressions.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"
#include "lower/core/predicates.h"
#include "lower/core/reads.h"

namespace weft::lowering {

namespace {

constexpr int kBitsPerAxis = 8;

/// 0 <= index < extent.
ScalarRef scalar_below(const IndexExpr& index, const IndexExpr& extent) {
  const ScalarRef i = scalar_index(index);
  const ScalarRef zero = scalar_constant(int_value(DType::kI64, 0));
  return scalar_apply(ScalarOp::kAnd,
                      {scalar_apply(ScalarOp::kGe, {i, zero}, DType::kBool),
                       scalar_apply(ScalarOp::kLt, {i, scalar_index(extent)}, DType::kBool)},
                      DType::kBool);
}

/// carry + a * b, rounded once: the order and the roundings inside a sum are the plan's. A factor
/// that is a predicate's zero adds nothing. The product may be a value made in this iteration.
std::optional<Reg> evaluate_accumulation(KernelWriter& w, const Scalar& s, const Point& point,
                                         Reg guard) {
  if (s.op != ScalarOp::kAdd || !is_float(s.type)) return std::nullopt;
  const ScalarRef& carry = s.operands[0];
  const ScalarRef& product = s.operands[1];
  if (carry->kind != Scalar::Kind::kRead || carry->next ||
      w.program.symbols[static_cast<size_t>(carry->symbol)].kind != TileSymbol::Kind::kCarry) {
    return std::nullopt;
  }
  Reg a = kNoReg, b = kNoReg;
  if (product->kind == Scalar::Kind::kRead) {
    std::tie(a, b) = w.builder.factors(evaluate(w, product, point, guard));
  } else if (product->kind == Scalar::Kind::kApply && product->op == ScalarOp::kMul) {
    for (const ScalarRef& factor : product->operands) {
      if (factor->kind != Scalar::Kind::kApply || factor->op != ScalarOp::kSelect) continue;
      const ScalarRef& other = factor->operands[2];
      if (other->kind != Scalar::Kind::kConstant || other->value.f != 0) continue;
      if (decide(w, factor->operands[0], point) == false) return evaluate(w, carry, point, guard);
    }
    a = evaluate(w, product->operands[0], point, guard);
    b = evaluate(w, product->operands[1], point, guard);
  }
  if (a == kNoReg) return std::nullopt;
  const Reg sum = evaluate(w, carry, point, guard);
  const int32_t lanes =
      std::max({w.builder.type(sum).lanes, w.builder.type(a).lanes, w.builder.type(b).lanes});
  return w.builder.fma(to_lanes(w, a, lanes), to_lanes(w, b, lanes), to_lanes(w, sum, lanes));
}

/// Whether base + coefficient * lane has the same sign for all lanes, whatever the variables in the
/// base are.
bool is_one_sign(const PointOffset& base, int32_t lanes) {
  int64_t step = 0;
  for (const auto& [id, c] : base.terms) step = std::gcd(step, c);
  if (step == 0) return false;
  const int64_t reach = base.lane_coefficient * (lanes - 1);
  const int64_t rest = (base.constant % step + step) % step;  // the least base that is not negative
  return reach >= 0 ? step - rest > reach : rest >= -reach;
}

/// A comparison of indices that holds for all lanes of a vector or for none, by its first lane.
std::optional<Reg> evaluate_for_all_lanes(KernelWriter& w, const Scalar& s, const Point& point) {
  const bool strict = s.op == ScalarOp::kGt || s.op == ScalarOp::kLe;
  const bool negated = s.op == ScalarOp::kLt || s.op == ScalarOp::kLe;
  if (w.is_gpu() || w.at_hand.box.lanes == 1 || (!strict && !negated && s.op != ScalarOp::kGe))
    return std::nullopt;
  const std::optional<IndexExpr> compared = compared_difference(s);
  if (!compared) return std::nullopt;
  const PreparedIndex difference = prepare(w, *compared - (strict ? 1 : 0));
  const auto base = affine_at_point(w, difference, point);
  if (!base || base->lane_coefficient == 0 || !is_one_sign(*base, w.at_hand.box.lanes))
    return std::nullopt;
  const Reg first = emit_terms(w, base->terms, base->constant);
  return w.builder.apply(negated ? ScalarOp::kLt : ScalarOp::kGe,
                         {first, w.builder.int_constant(0)}, DType::kBool);
}

Reg evaluate_apply(KernelWriter& w, const Scalar& s, const Point& point, Reg guard) {
  if (const auto alike = evaluate_for_all_lanes(w, s, point)) return *alike;
  if (s.op == ScalarOp::kExp && s.type != DType::kF64 && w.shifted_exponentials.count(&s) != 0) {
    return w.builder.exp_nonpositive(evaluate(w, s.operands[0], point, guard));
  }
  if (const auto sum = evaluate_accumulation(w, s, point, guard)) return *sum;
  std::vector<Reg> operands;
  int32_t lanes = 1;
  for (const ScalarRef& o : s.operands) {
    operands.push_back(evaluate(w, o, point, guard));
    lanes = std::max(lanes, w.builder.type(operands.back()).lanes);
  }
  for (Reg& r : operands) r = to_lanes(w, r, lanes);
  return w.builder.apply(s.op, std::move(operands), s.type);
}

int reads_in(const ScalarRef& s) {
  int reads = 0;
  visit(s, [&](const Scalar& n) { reads += n.kind == Scalar::Kind::kRead ? 1 : 0; });
  return reads;
}

/// A choice by what all lanes have in common between more reads than are worth making all: what is
/// chosen is computed alone.
Reg evaluate_branches(KernelWriter& w, const Scalar& s, Reg condition, const Point& point,
                      Reg guard) {
  const auto branch = [&](bool taken) {
    return [&w, &s, &point, guard, taken]() -> std::vector<Reg> {
      const auto made_before = w.at_hand.memo;  // what a branch makes is not seen outside of it
      w.at_hand.decided.emplace_back(s.operands[0], taken);
      const Reg value = evaluate(w, s.operands[taken ? 1 : 2], point, guard);
      w.at_hand.decided.pop_back();
      w.at_hand.memo = made_before;
      return {to_lanes(w, value, w.at_hand.box.lanes)};
    };
  };
  return w.builder.if_then_else(condition, branch(true), branch(false)).front();
}

Reg evaluate_select(KernelWriter& w, const Scalar& s, const Point& point, Reg guard) {
  if (const auto known = decide(w, s.operands[0], point)) {
    w.at_hand.decided.emplace_back(s.operands[0], *known);
    const Reg taken = evaluate(w, s.operands[*known ? 1 : 2], point, guard);
    w.at_hand.decided.pop_back();
    return taken;
  }
  const Reg condition = evaluate(w, s.operands[0], point, guard);
  constexpr int kMostReads = 2;
  const int then_reads = reads_in(s.operands[1]), else_reads = reads_in(s.operands[2]);
  if (!w.is_gpu() && w.at_hand.box.lanes > 1 && w.builder.type(condition).lanes == 1 &&
      then_reads > 0 && else_reads > 0 && then_reads + else_reads > kMostReads)
    return evaluate_branches(w, s, condition, point, guard);
  Reg then_guard = guard, else_guard = guard;
  if (then_reads > 0) then_guard = combine_guards(w, guard, condition);
  if (else_reads > 0) {
    else_guard =
        combine_guards(w, guard, w.builder.apply(ScalarOp::kNot, {condition}, DType::kBool));
  }
  Reg a = evaluate(w, s.operands[1], point, then_guard);
  Reg b = evaluate(w, s.operands[2], point, else_guard);
  const int32_t lanes =
      std::max({w.builder.type(condition).lanes, w.builder.type(a).lanes, w.builder.type(b).lanes});
  return w.builder.apply(
      ScalarOp::kSelect,
      {to_lanes(w, condition, lanes), to_lanes(w, a, lanes), to_lanes(w, b, lanes)}, s.type);
}

Reg evaluate_uncached(KernelWriter& w, const ScalarRef& s, const Point& point, Reg guard) {
  switch (s->kind) {
    case Scalar::Kind::kConstant:
      return w.builder.constant({s->type, 1}, s->value);
    case Scalar::Kind::kIndex: {
      const PreparedIndex index = prepare(w, s->index);
      Reg r;
      if (const auto at = affine_at_point(w, index, point)) {
        r = emit_terms(w, at->terms, at->constant);
        if (at->lane_coefficient != 0) {
          Reg lanes = w.builder.ramp(DType::kI64, w.at_hand.box.lanes);
          lanes = w.builder.apply(
              ScalarOp::kMul,
              {lanes, w.builder.broadcast(w.builder.int_constant(at->lane_coefficient),
                                          w.at_hand.box.lanes)},
              DType::kI64);
          r = w.builder.apply(ScalarOp::kAdd, {to_lanes(w, r, w.at_hand.box.lanes), lanes},
                              DType::kI64);
        }
      } else {
        r = emit_index(
            w, simplify(at_point(w, index, point), [&](int id) { return range_of_var(w, id); }));
      }
      return s->type == DType::kI64 ? r : w.builder.apply(ScalarOp::kConvert, {r}, s->type);
    }
    case Scalar::Kind::kRead: {
      // What is staged holds its zeros.
      const bool filled = w.scopes.symbols[static_cast<size_t>(s->symbol)].staged;
      if (!s->fill || filled) return evaluate_read(w, *s, point, guard);
      ScalarRef inside;
      const TileSymbol& symbol = w.program.symbols[static_cast<size_t>(s->symbol)];
      for (size_t a = 0; a < s->indices.size(); ++a) {
        const IndexExpr extent = bind(w, symbol.shape[a]);
        const ScalarRef in = extent.is_const() ? scalar_in_range(s->indices[a], extent.constant(),
                                                                 [](int) { return kUnbounded; })
                                               : scalar_below(s->indices[a], extent);
        inside = inside ? scalar_apply(ScalarOp::kAnd, {inside, in}, DType::kBool) : in;
      }
      const ScalarRef bare = scalar_read(s->symbol, s->type, s->indices, s->operands);
      const ScalarRef select =
          inside ? scalar_apply(ScalarOp::kSelect, {inside, bare, s->fill}, s->type) : bare;
      w.at_hand.kept.push_back(select);
      return evaluate(w, select, point, guard);
    }
    case Scalar::Kind::kApply:
      return s->op == ScalarOp::kSelect ? evaluate_select(w, *s, point, guard)
                                        : evaluate_apply(w, *s, point, guard);
  }
  return kNoReg;
}

}  // namespace

void begin_evaluation(KernelWriter& w, const Box& box) {
  WEFT_CHECK(box.axes.size() * kBitsPerAxis <= 64,
             "a box of more than 8 axes in " + w.program.name);
  w.at_hand.box = box;
  w.at_hand.fills_tile = std::all_of(box.axes.begin(), box.axes.end(), [&](const Box::Axis& a) {
    return a.start(a.regs - 1) + a.thread_reach() + a.lanes <=
           w.program.vars[static_cast<size_t>(a.var)].extent;
  });
  w.at_hand.memo.clear();
  w.at_hand.lies_in_block.clear();
  w.at_hand.box_masks.clear();
  w.at_hand.prepared.clear();
  w.at_hand.prepared_coordinates.clear();
}

uint64_t project(const Point& point, uint64_t mask) {
  uint64_t key = 0;
  for (size_t a = 0; a < point.size(); ++a) {
    if ((mask >> a & 1) != 0) key |= static_cast<uint64_t>(point[a]) << (a * kBitsPerAxis);
  }
  return key;
}

uint64_t box_mask(KernelWriter& w, const ScalarRef& s) {
  if (const auto it = w.at_hand.box_masks.find(s.get()); it != w.at_hand.box_masks.end())
    return it->second;
  uint64_t mask = 0;
  const auto add_index = [&](const IndexExpr& e) {
    for (const int id : variables(e)) {
      const int axis = id < kKernelVarBase ? w.at_hand.box.find(id) : -1;
      if (axis >= 0) mask |= uint64_t{1} << axis;
    }
  };
  if (s->kind == Scalar::Kind::kIndex) add_index(s->index);
  for (const IndexExpr& e : s->indices) add_index(e);
  for (const ScalarRef& o : s->operands) mask |= box_mask(w, o);
  if (s->fill) mask |= box_mask(w, s->fill);
  w.at_hand.box_masks.emplace(s.get(), mask);
  return mask;
}

Reg evaluate(KernelWriter& w, const ScalarRef& s, const Point& point, Reg guard) {
  if (!w.at_hand.hoisted.empty() && (guard == kNoReg || guard == w.at_hand.mask)) {
    const auto it = w.at_hand.hoisted.find({s.get(), project(point, box_mask(w, s))});
    if (it != w.at_hand.hoisted.end()) return it->second;
  }
  guard = w.load_guard(*s, point, guard, box_mask(w, s));
  const AtHand::Key key{s.get(), project(point, box_mask(w, s)), guard};
  if (const auto it = w.at_hand.memo.find(key); it != w.at_hand.memo.end()) return it->second;
  const Reg r = evaluate_uncached(w, s, point, guard);
  w.at_hand.memo[key] = r;
  return r;
}

std::optional<bool> decide(KernelWriter& w, const ScalarRef& c, const Point& point) {
  if (c->kind == Scalar::Kind::kConstant) return c->value.i != 0;
  if (c->kind != Scalar::Kind::kApply) return std::nullopt;
  if (c->op == ScalarOp::kAnd || c->op == ScalarOp::kOr) {
    const bool absorbing = c->op == ScalarOp::kOr;
    const auto a = decide(w, c->operands[0], point);
    if (a == absorbing) return absorbing;
    const auto b = decide(w, c->operands[1], point);
    if (b == absorbing) return absorbing;
    if (a && b) return !absorbing;
    return std::nullopt;
  }
  if (c->op == ScalarOp::kNot) {
    const auto a = decide(w, c->operands[0], point);
    return a ? std::optional<bool>(!*a) : std::nullopt;
  }
  const std::optional<IndexExpr> compared = compared_difference(*c);
  if (!compared) return std::nullopt;
  const auto range = [&](int id) { return range_of_var(w, id); };
  const IndexExpr difference = simplify(at_point(w, prepare(w, *compared), point), range);
  Interval d = range_of(difference, range);
  for (const IndexExpr& fact : w.bindings.facts) {
    d.hi = std::min(d.hi, range_of(simplify(difference + fact, range), range).hi);
    d.lo = std::max(d.lo, range_of(simplify(difference - fact, range), range).lo);
  }
  switch (c->op) {
    case ScalarOp::kLt:
      return d.hi < 0 ? std::optional(true) : d.lo >= 0 ? std::optional(false) : std::nullopt;
    case ScalarOp::kLe:
      return d.hi <= 0 ? std::optional(true) : d.lo > 0 ? std::optional(false) : std::nullopt;
    case ScalarOp::kGt:
      return d.lo > 0 ? std::optional(true) : d.hi <= 0 ? std::optional(false) : std::nullopt;
    case ScalarOp::kGe:
      return d.lo >= 0 ? std::optional(true) : d.hi < 0 ? std::optional(false) : std::nullopt;
    case ScalarOp::kEq:
    case ScalarOp::kNe: {
      const bool equal = c->op == ScalarOp::kEq;
      if (d.lo == 0 && d.hi == 0) return equal;
      if (d.lo > 0 || d.hi < 0) return !equal;
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace weft::lowering

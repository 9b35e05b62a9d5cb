#include <algorithm>
#include <numeric>
#include <tuple>

#include "lower/lowering.h"

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

}  // namespace

int Box::find(int var) const {
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].var == var) return static_cast<int>(a);
  }
  return -1;
}

int64_t Box::Axis::start(int64_t copy) const {
  int64_t element = 0;
  for (size_t d = digits.size(); d-- > 0;) {
    element += copy % digits[d].extent * digits[d].divisor;
    copy /= digits[d].extent;
  }
  return element;
}

int64_t Box::Axis::thread_reach() const {
  int64_t reach = 0;
  for (const auto& [digit, step] : threads) reach += (digit.extent - 1) * step;
  for (const LoopDigit& loop : loops) reach += (loop.extent - 1) * loop.step;
  return reach;
}

int64_t Box::points() const {
  int64_t n = 1;
  for (const Axis& a : axes) n *= a.regs;
  return n;
}

void Lowering::begin_evaluation(const Box& box) {
  WEFT_CHECK(box.axes.size() * kBitsPerAxis <= 64, "a box of more than 8 axes in " + program_.name);
  box_ = box;
  box_fills_tile_ = std::all_of(box.axes.begin(), box.axes.end(), [&](const Box::Axis& a) {
    return a.start(a.regs - 1) + a.thread_reach() + a.lanes <=
           program_.vars[static_cast<size_t>(a.var)].extent;
  });
  memo_.clear();
  box_masks_.clear();
  prepared_.clear();
  prepared_coordinates_.clear();
}

uint64_t Lowering::project(const Point& point, uint64_t mask) const {
  uint64_t key = 0;
  for (size_t a = 0; a < point.size(); ++a) {
    if ((mask >> a & 1) != 0) key |= static_cast<uint64_t>(point[a]) << (a * kBitsPerAxis);
  }
  return key;
}

/// Bit a: the value depends on axis a of the box.
uint64_t Lowering::box_mask(const ScalarRef& s) {
  if (const auto it = box_masks_.find(s.get()); it != box_masks_.end()) return it->second;
  uint64_t mask = 0;
  const auto add_index = [&](const IndexExpr& e) {
    for (const int id : variables(e)) {
      const int axis = id < kKernelVarBase ? box_.find(id) : -1;
      if (axis >= 0) mask |= uint64_t{1} << axis;
    }
  };
  if (s->kind == Scalar::Kind::kIndex) add_index(s->index);
  for (const IndexExpr& e : s->indices) add_index(e);
  for (const ScalarRef& o : s->operands) mask |= box_mask(o);
  if (s->fill) mask |= box_mask(s->fill);
  box_masks_.emplace(s.get(), mask);
  return mask;
}

/// A load from an input asks for what its own axes have, whatever the other axes of the statement's
/// box leave out: copies of it in other registers are then the same.
Reg Lowering::own_guard(const Scalar& s, const Point& point, Reg guard, uint64_t axes) {
  const bool loads =
      s.kind == Scalar::Kind::kRead && !s.fill && s.operands.empty() &&
      program_.symbols[static_cast<size_t>(s.symbol)].kind == TileSymbol::Kind::kInput;
  if (!gpu_ || !loads || guard == kNoReg || guard != statement_mask_) return guard;
  bool skip = false;
  return lane_mask_along(box_, point, axes, &skip);
}

Reg Lowering::evaluate(const ScalarRef& s, const Point& point, Reg guard) {
  if (!hoisted_.empty() && (guard == kNoReg || guard == statement_mask_)) {
    const auto it = hoisted_.find({s.get(), project(point, box_mask(s))});
    if (it != hoisted_.end()) return it->second;
  }
  guard = own_guard(*s, point, guard, box_mask(s));
  // What is staged lies in memory as a whole, with zeros beyond tails: all points share its loads.
  if (guard != kNoReg && s->kind == Scalar::Kind::kRead && gpu_ && box_fills_tile_ &&
      scopes_.symbols[static_cast<size_t>(s->symbol)].staged) {
    guard = kNoReg;
  }
  const EvalKey key{s.get(), project(point, box_mask(s)), guard};
  if (const auto it = memo_.find(key); it != memo_.end()) return it->second;
  const Reg r = evaluate_uncached(s, point, guard);
  memo_[key] = r;
  return r;
}

Reg Lowering::evaluate_uncached(const ScalarRef& s, const Point& point, Reg guard) {
  switch (s->kind) {
    case Scalar::Kind::kConstant:
      return builder_.constant({s->type, 1}, s->value);
    case Scalar::Kind::kIndex: {
      const PreparedIndex index = prepare(s->index);
      Reg r;
      if (const auto at = affine_at_point(index, point)) {
        r = emit_terms(at->terms, at->constant);
        if (at->lane_coefficient != 0) {
          Reg lanes = builder_.ramp(DType::kI64, box_.lanes);
          lanes = builder_.apply(
              ScalarOp::kMul,
              {lanes, builder_.broadcast(builder_.int_constant(at->lane_coefficient), box_.lanes)},
              DType::kI64);
          r = builder_.apply(ScalarOp::kAdd, {to_lanes(r, box_.lanes), lanes}, DType::kI64);
        }
      } else {
        r = emit_index(
            simplify(at_point(index, point), [this](int id) { return range_of_var(id); }));
      }
      return s->type == DType::kI64 ? r : builder_.apply(ScalarOp::kConvert, {r}, s->type);
    }
    case Scalar::Kind::kRead: {
      if (!s->fill) return evaluate_read(*s, point, guard);
      ScalarRef inside;
      const TileSymbol& symbol = program_.symbols[static_cast<size_t>(s->symbol)];
      for (size_t a = 0; a < s->indices.size(); ++a) {
        const IndexExpr extent = bind(symbol.shape[a]);
        const ScalarRef in = extent.is_const() ? scalar_in_range(s->indices[a], extent.constant(),
                                                                 [](int) { return kUnbounded; })
                                               : scalar_below(s->indices[a], extent);
        inside = inside ? scalar_apply(ScalarOp::kAnd, {inside, in}, DType::kBool) : in;
      }
      const ScalarRef bare = scalar_read(s->symbol, s->type, s->indices, s->operands);
      const ScalarRef select =
          inside ? scalar_apply(ScalarOp::kSelect, {inside, bare, s->fill}, s->type) : bare;
      kept_.push_back(select);
      return evaluate(select, point, guard);
    }
    case Scalar::Kind::kApply:
      return s->op == ScalarOp::kSelect ? evaluate_select(*s, point, guard)
                                        : evaluate_apply(*s, point, guard);
  }
  return kNoReg;
}

Reg Lowering::evaluate_apply(const Scalar& s, const Point& point, Reg guard) {
  if (s.op == ScalarOp::kExp && s.type != DType::kF64 && shifted_exponentials_.count(&s) != 0) {
    return builder_.exp_nonpositive(evaluate(s.operands[0], point, guard));
  }
  if (const auto sum = evaluate_accumulation(s, point, guard)) return *sum;
  std::vector<Reg> operands;
  int32_t lanes = 1;
  for (const ScalarRef& o : s.operands) {
    operands.push_back(evaluate(o, point, guard));
    lanes = std::max(lanes, builder_.type(operands.back()).lanes);
  }
  for (Reg& r : operands) r = to_lanes(r, lanes);
  return builder_.apply(s.op, std::move(operands), s.type);
}

/// carry + a * b, rounded once: the order and the roundings inside a sum are the plan's. A factor
/// that is a predicate's zero adds nothing. The product may be a value made in this iteration.
std::optional<Reg> Lowering::evaluate_accumulation(const Scalar& s, const Point& point, Reg guard) {
  if (s.op != ScalarOp::kAdd || !is_float(s.type)) return std::nullopt;
  const ScalarRef& carry = s.operands[0];
  const ScalarRef& product = s.operands[1];
  if (carry->kind != Scalar::Kind::kRead || carry->next ||
      program_.symbols[static_cast<size_t>(carry->symbol)].kind != TileSymbol::Kind::kCarry) {
    return std::nullopt;
  }
  Reg a = kNoReg, b = kNoReg;
  if (product->kind == Scalar::Kind::kRead) {
    std::tie(a, b) = builder_.factors(evaluate(product, point, guard));
  } else if (product->kind == Scalar::Kind::kApply && product->op == ScalarOp::kMul) {
    for (const ScalarRef& factor : product->operands) {
      if (factor->kind != Scalar::Kind::kApply || factor->op != ScalarOp::kSelect) continue;
      const ScalarRef& other = factor->operands[2];
      if (other->kind != Scalar::Kind::kConstant || other->value.f != 0) continue;
      if (decide(factor->operands[0], point) == false) return evaluate(carry, point, guard);
    }
    a = evaluate(product->operands[0], point, guard);
    b = evaluate(product->operands[1], point, guard);
  }
  if (a == kNoReg) return std::nullopt;
  const Reg sum = evaluate(carry, point, guard);
  const int32_t lanes =
      std::max({builder_.type(sum).lanes, builder_.type(a).lanes, builder_.type(b).lanes});
  return builder_.fma(to_lanes(a, lanes), to_lanes(b, lanes), to_lanes(sum, lanes));
}

Reg Lowering::evaluate_select(const Scalar& s, const Point& point, Reg guard) {
  if (const auto known = decide(s.operands[0], point)) {
    return evaluate(s.operands[*known ? 1 : 2], point, guard);
  }
  const Reg condition = evaluate(s.operands[0], point, guard);
  const auto needs_guard = [](const ScalarRef& branch) {
    bool reads = false;
    visit(branch, [&](const Scalar& n) { reads |= n.kind == Scalar::Kind::kRead; });
    return reads;
  };
  Reg then_guard = guard, else_guard = guard;
  if (needs_guard(s.operands[1])) then_guard = combine_guards(guard, condition);
  if (needs_guard(s.operands[2])) {
    else_guard = combine_guards(guard, builder_.apply(ScalarOp::kNot, {condition}, DType::kBool));
  }
  Reg a = evaluate(s.operands[1], point, then_guard);
  Reg b = evaluate(s.operands[2], point, else_guard);
  const int32_t lanes =
      std::max({builder_.type(condition).lanes, builder_.type(a).lanes, builder_.type(b).lanes});
  return builder_.apply(ScalarOp::kSelect,
                        {to_lanes(condition, lanes), to_lanes(a, lanes), to_lanes(b, lanes)},
                        s.type);
}

Reg Lowering::combine_guards(Reg a, Reg b) {
  if (a == kNoReg) return b;
  if (b == kNoReg) return a;
  const int32_t lanes = std::max(builder_.type(a).lanes, builder_.type(b).lanes);
  return builder_.apply(ScalarOp::kAnd, {to_lanes(a, lanes), to_lanes(b, lanes)}, DType::kBool);
}

std::optional<bool> Lowering::decide(const ScalarRef& c, const Point& point) {
  if (c->kind == Scalar::Kind::kConstant) return c->value.i != 0;
  if (c->kind != Scalar::Kind::kApply) return std::nullopt;
  if (c->op == ScalarOp::kAnd || c->op == ScalarOp::kOr) {
    const bool absorbing = c->op == ScalarOp::kOr;
    const auto a = decide(c->operands[0], point);
    if (a == absorbing) return absorbing;
    const auto b = decide(c->operands[1], point);
    if (b == absorbing) return absorbing;
    if (a && b) return !absorbing;
    return std::nullopt;
  }
  if (c->op == ScalarOp::kNot) {
    const auto a = decide(c->operands[0], point);
    return a ? std::optional<bool>(!*a) : std::nullopt;
  }
  if (!scalar_op_is_comparison(c->op)) return std::nullopt;
  const auto as_index = [](const ScalarRef& s) -> std::optional<IndexExpr> {
    if (s->kind == Scalar::Kind::kIndex) return s->index;
    if (s->kind == Scalar::Kind::kConstant && !is_float(s->type)) return IndexExpr(s->value.i);
    return std::nullopt;
  };
  const auto a = as_index(c->operands[0]), b = as_index(c->operands[1]);
  if (!a || !b) return std::nullopt;
  const auto range = [this](int id) { return range_of_var(id); };
  const IndexExpr difference = simplify(at_point(prepare(*a - *b), point), range);
  Interval d = range_of(difference, range);
  for (const IndexExpr& fact : facts_) {
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

/// Which lanes of a point lie inside the box; `skip` where none does in any thread.
Reg Lowering::lane_mask_of(const Box& box, const Point& point, bool* skip) {
  return statement_mask_ = lane_mask_along(box, point, ~uint64_t{0}, skip);
}

/// The same for the axes whose bits are set.
Reg Lowering::lane_mask_along(const Box& box, const Point& point, uint64_t axes, bool* skip) {
  *skip = false;
  Reg mask = kNoReg;
  for (size_t a = 0; a < box.axes.size(); ++a) {
    if ((axes >> a & 1) == 0) continue;
    const Box::Axis& axis = box.axes[a];
    const int64_t start = axis.start(point[a]);
    const auto& valid = valid_[static_cast<size_t>(axis.var)];
    const TileVar& var = program_.vars[static_cast<size_t>(axis.var)];
    const bool known = !valid || valid->reg == kNoReg;
    const int64_t count = valid && valid->count > 0 ? valid->count : var.extent;
    if (start >= count) {
      *skip = true;
      return kNoReg;
    }
    const bool inside = start + axis.thread_reach() + axis.lanes <= count;
    if (known && inside) continue;
    // What is left from this thread's first element on, within the axis.
    const bool beyond = start + axis.thread_reach() + axis.lanes > var.extent;
    Reg left = known ? builder_.int_constant(count) : valid->reg;
    if (!known && beyond) {
      left = builder_.apply(ScalarOp::kMin, {left, builder_.int_constant(var.extent)}, DType::kI64);
    }
    Reg rest = builder_.apply(ScalarOp::kSub, {left, builder_.int_constant(start)}, DType::kI64);
    for (const auto& [digit, step] : axis.threads) {
      const Reg passed = builder_.apply(
          ScalarOp::kMul, {emit_digit(digit), builder_.int_constant(step)}, DType::kI64);
      rest = builder_.apply(ScalarOp::kSub, {rest, passed}, DType::kI64);
    }
    for (const Box::Axis::LoopDigit& loop : axis.loops) {
      const Reg passed = builder_.apply(
          ScalarOp::kMul, {kernel_var(loop.var), builder_.int_constant(loop.step)}, DType::kI64);
      rest = builder_.apply(ScalarOp::kSub, {rest, passed}, DType::kI64);
    }
    const int64_t divisor = known    ? count
                            : beyond ? std::gcd(valid->divisor, var.extent)
                                     : valid->divisor;
    const bool whole = axis.lanes > 1 && gpu_ && divisor % axis.lanes == 0;
    const Reg here =
        axis.lanes > 1 && !whole
            ? builder_.lane_mask(rest, static_cast<int32_t>(axis.lanes))
            : builder_.apply(ScalarOp::kGt, {rest, builder_.int_constant(0)}, DType::kBool);
    mask = combine_guards(mask, here);
  }
  return mask;
}

Reg Lowering::combine_values(Combiner combiner, Reg a, Reg b) {
  const int32_t lanes = std::max(builder_.type(a).lanes, builder_.type(b).lanes);
  const DType type = builder_.type(a).dtype;
  const std::optional<ScalarOp> op = combiner_op(combiner);
  WEFT_CHECK(op.has_value(), "a combiner of pairs has no scalar form");
  return builder_.apply(*op, {to_lanes(a, lanes), to_lanes(b, lanes)}, type);
}

}  // namespace weft::lowering

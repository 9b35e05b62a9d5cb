#include "lower/cpu/open_grid.h"

#include <algorithm>

#include "lower/core/decided_range.h"
#include "lower/core/index_emission.h"
#include "lower/cpu/grid.h"

namespace weft::lowering {

namespace {

/// Vector elements along a loop's offset in the places of a body; 1 where it lies in registers.
int64_t vector_elements(const TileBody& body, TileVarId offset) {
  int64_t lanes = 1;
  const auto look = [&](const Place& place) {
    for (const Place::Axis& axis : place.axes) {
      if (axis.var != offset) continue;
      for (const Place::Digit& d : axis.digits) {
        if (d.level == PlaceLevel::kVec) lanes = std::max(lanes, d.extent);
      }
    }
  };
  for (const TileNode& node : body) {
    if (node.kind == TileNode::Kind::kStatement) look(node.statement.place);
    if (node.kind == TileNode::Kind::kLoop) {
      for (const TileCarry& carry : node.loop->carries) look(carry.place);
      lanes = std::max(lanes, vector_elements(node.loop->body, offset));
    }
    if (node.kind == TileNode::Kind::kCondition)
      lanes = std::max(lanes, vector_elements(node.condition->body, offset));
  }
  return lanes;
}

/// Whole tiles before iteration `end`.
void emit_open_iterations(CpuWriter& w, const OpenDim& open, const DecidedRange& decided, Reg end) {
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  const Reg last = op(ScalarOp::kMin, open.last, end);
  const auto run = [&](Reg from, Reg to, Interval range) {
    w.builder.for_loop(from, to, 1, {}, [&](Reg iv, const std::vector<Reg>&) {
      const auto saved_tiles = w.registers.tiles;
      const size_t known = w.bindings.facts.size();
      const bool one = range.lo == range.hi;
      const IndexExpr t = one ? IndexExpr(range.lo) : add_kernel_var(w, iv, range);
      state_decided(w, decided, t);
      emit_open_iteration(w, open, t * open.loop->dims[open.dim].step + open.begin,
                          one ? w.builder.int_constant(range.lo) : iv);
      w.bindings.facts.resize(known);
      w.registers.tiles = saved_tiles;
      return std::vector<Reg>{};
    });
  };
  if (decided.from > 0) {
    const Reg border = w.builder.int_constant(decided.from);
    run(open.first, op(ScalarOp::kMin, last, border), {0, decided.from - 1});
    run(op(ScalarOp::kMax, open.first, border), last, {decided.from, kOpenIterations.hi});
  } else {
    run(open.first, last, kOpenIterations);
  }
}

/// Whether loops of the body go over what an iteration has of the dimension, or over what follows
/// from where it begins, as the stages of a block do.
bool goes_over(const TileBody& body, const TileLoop::Dim& dim) {
  const auto follows = [&](const IndexExpr& bound) {
    return uses_var(bound, dim.origin) || (dim.offset >= 0 && uses_var(bound, dim.offset));
  };
  return std::ranges::any_of(body, [&](const TileNode& node) {
    if (node.kind == TileNode::Kind::kCondition) return goes_over(node.condition->body, dim);
    if (node.kind != TileNode::Kind::kLoop) return false;
    return goes_over(node.loop->body, dim) ||
           std::ranges::any_of(node.loop->dims, [&](const TileLoop::Dim& d) {
             return follows(d.begin) || follows(d.end);
           });
  });
}

/// The elements from iteration `begin` on.
void emit_open_rest(CpuWriter& w, const OpenDim& open, Reg begin) {
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  const TileLoop::Dim& d = open.loop->dims[open.dim];
  const Reg step = w.builder.int_constant(d.step), extent = emit_index(w, open.extent);
  const int64_t elements = goes_over(open.loop->body, d) ? d.step
                           : d.offset < 0 ? 1
                                          : vector_elements(open.loop->body, d.offset);
  const Reg from = op(ScalarOp::kMul, op(ScalarOp::kMax, open.first, begin), step);
  const Reg to = op(ScalarOp::kMin, op(ScalarOp::kMul, open.last, step), extent);
  w.builder.for_loop(from, to, elements, {}, [&](Reg iv, const std::vector<Reg>&) {
    const auto saved_tiles = w.registers.tiles;
    const IndexExpr element = add_kernel_var(w, iv, kOpenIterations);
    if (d.offset >= 0) {
      Valid valid{elements, kNoReg};
      if (elements > 1) valid.reg = op(ScalarOp::kSub, extent, iv);
      w.bindings.valid[static_cast<size_t>(d.offset)] = valid;
    }
    const Reg iteration = d.step == 1 ? iv : op(ScalarOp::kDiv, iv, step);
    emit_open_iteration(w, open, element + open.begin, iteration);
    if (d.offset >= 0) w.bindings.valid[static_cast<size_t>(d.offset)].reset();
    w.registers.tiles = saved_tiles;
    return std::vector<Reg>{};
  });
}

}  // namespace

void find_iterations(CpuWriter& w, OpenDim& open) {
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  IndexExpr inner = open_items_below(w, *open.loop, open.dim + 1);
  open.inner = inner;
  open.first = open.lo;
  open.last = open.hi;
  if (inner.is_const(1)) return;
  const Reg items = emit_index(w, inner);
  open.first = op(ScalarOp::kDiv, open.lo, items);
  const Reg before = op(ScalarOp::kSub, items, w.builder.int_constant(1));
  open.last = op(ScalarOp::kDiv, op(ScalarOp::kAdd, open.hi, before), items);
}

void emit_open_iteration(CpuWriter& w, const OpenDim& open, const IndexExpr& origin,
                         Reg iteration) {
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  const auto var = static_cast<size_t>(open.loop->dims[open.dim].origin);
  w.bindings.bound[var] = origin;
  Reg below_lo = w.builder.int_constant(0), below_hi = w.builder.int_constant(1);
  if (!open.inner.is_const(1)) {
    const Reg items = emit_index(w, open.inner);
    const Reg base = op(ScalarOp::kMul, iteration, items);
    below_lo = op(ScalarOp::kMax, op(ScalarOp::kSub, open.lo, base), w.builder.int_constant(0));
    below_hi = op(ScalarOp::kMin, op(ScalarOp::kSub, open.hi, base), items);
  }
  emit_grid_dim(w, *open.loop, open.dim + 1, below_lo, below_hi);
  w.bindings.bound[var].reset();
}

void emit_open_grid_dim(CpuWriter& w, const TileLoop& loop, size_t dim, Reg lo, Reg hi) {
  const auto range = [&](int id) { return range_of_var(w, id); };
  const TileLoop::Dim& d = loop.dims[dim];
  OpenDim open{&loop, dim, bind(w, d.begin), {}, lo, hi};
  open.extent = simplify(max(bind(w, d.end) - open.begin, 0), range);
  find_iterations(w, open);
  const DecidedRange decided = decided_range(w, loop.body, d, open.begin);
  const Reg whole = emit_index(w, simplify(floor_div(open.extent, d.step), range));
  const Reg end = emit_last_decided(w, decided, whole);
  emit_open_iterations(w, open, decided, end);
  // Single elements leave none over where no border is asked about.
  const bool has_rest = d.step > 1 || !decided.limits.empty();
  if (has_rest) emit_open_rest(w, open, end);
}

}  // namespace weft::lowering

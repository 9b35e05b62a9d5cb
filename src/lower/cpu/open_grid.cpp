#include "lower/cpu/open_grid.h"

#include <algorithm>
#include <map>

#include "lower/core/index_emission.h"
#include "lower/core/predicates.h"
#include "lower/cpu/grid.h"

namespace weft::lowering {

namespace {

/// Where the predicates of a body are decided along an open dimension.
struct DecidedRange {
  int64_t from = 0;  ///< first iteration
  struct Limit {
    IndexExpr slack;  ///< at iteration 0; decided while slack - loss * iteration >= 0
    int64_t loss = 1;
  };
  std::vector<Limit> limits;
};

/// Iterations of an open dimension, and elements along it.
constexpr Interval kOpenIterations{0, int64_t{1} << 31};
/// Left borders of more iterations than this are decided element by element, as are right borders
/// of which there are more.
constexpr int64_t kLongestBorder = 2;
constexpr size_t kMostLimits = 4;

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

/// Which iterations of an open dimension its body's predicates hold or fail in throughout:
/// `a + k >= 0` from a known iteration on, `a + k < size` as long as something is left of the size.
DecidedRange decided_range(CpuWriter& w, const TileBody& body, const TileLoop::Dim& dim,
                           const IndexExpr& begin) {
  DecidedRange out;
  const std::map<int, Interval> inner = inner_ranges(w, body);
  for (const IndexExpr& p : predicates_of(body)) {
    PreparedIndex index;
    if (!as_affine_of_products(w, bind(w, p), &index) || !index.scaled.empty()) continue;
    const int64_t c = index.form.coefficient(dim.origin) * dim.step;
    if (c <= 0 || !begin.is_const()) continue;
    const int64_t start =
        index.form.constant + index.form.coefficient(dim.origin) * begin.constant();
    Interval rest{start, start};
    IndexExpr sizes = 0;
    bool open = false, bounded = true;
    for (const auto& [id, k] : index.form.terms) {
      if (id == dim.origin) continue;
      const auto it = inner.find(id);
      const Interval r = it != inner.end() ? it->second : range_of_var(w, id);
      if (is_invariant_size(w, id)) {
        sizes = sizes + IndexExpr::var(id) * k;
        open = true;
        continue;
      }
      bounded &= r.lo > kOpenIterations.lo - kOpenIterations.hi && r.hi < kOpenIterations.hi;
      rest.lo += k > 0 ? k * r.lo : k * r.hi;
      rest.hi += k > 0 ? k * r.hi : k * r.lo;
    }
    if (!bounded) continue;
    if (!open) {
      const int64_t from = rest.lo < 0 ? (-rest.lo + c - 1) / c : 0;
      if (from <= kLongestBorder) out.from = std::max(out.from, from);
      continue;
    }
    const DecidedRange::Limit limit{IndexExpr(-1 - rest.hi) - sizes, c};
    const bool known = std::any_of(out.limits.begin(), out.limits.end(), [&](const auto& l) {
      return l.slack == limit.slack && l.loss == limit.loss;
    });
    if (!known && out.limits.size() < kMostLimits) out.limits.push_back(limit);
  }
  return out;
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
      for (const DecidedRange::Limit& limit : decided.limits)
        w.bindings.facts.push_back(limit.slack - t * limit.loss);
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

/// The elements from iteration `begin` on.
void emit_open_rest(CpuWriter& w, const OpenDim& open, Reg begin) {
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  const TileLoop::Dim& d = open.loop->dims[open.dim];
  const Reg step = w.builder.int_constant(d.step), extent = emit_index(w, open.extent);
  const int64_t lanes = d.offset < 0 ? 1 : vector_elements(open.loop->body, d.offset);
  const Reg from = op(ScalarOp::kMul, op(ScalarOp::kMax, open.first, begin), step);
  const Reg to = op(ScalarOp::kMin, op(ScalarOp::kMul, open.last, step), extent);
  w.builder.for_loop(from, to, lanes, {}, [&](Reg iv, const std::vector<Reg>&) {
    const auto saved_tiles = w.registers.tiles;
    const IndexExpr element = add_kernel_var(w, iv, kOpenIterations);
    if (d.offset >= 0) {
      Valid valid{lanes, kNoReg};
      if (lanes > 1) valid.reg = op(ScalarOp::kSub, extent, iv);
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
  Reg end = emit_index(w, simplify(floor_div(open.extent, d.step), range));
  for (const DecidedRange::Limit& limit : decided.limits) {
    const IndexExpr fitting = max(floor_div(limit.slack + limit.loss, limit.loss), 0);
    end = w.builder.apply(ScalarOp::kMin, {end, emit_index(w, simplify(fitting, range))},
                          DType::kI64);
  }
  emit_open_iterations(w, open, decided, end);
  emit_open_rest(w, open, end);
}

}  // namespace weft::lowering

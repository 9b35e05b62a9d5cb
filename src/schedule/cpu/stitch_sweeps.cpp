#include "schedule/cpu/stitch.h"

#include "schedule/cpu/stitch_builder.h"
#include "schedule/cpu/written_out.h"
#include "schedule/writer/best_positions.h"
#include "schedule/writer/statements.h"

namespace weft {

/// The axes of the tile that a value, or the result of a reduction, runs along.
Place Stitch::place(int p) const {
  Place out;
  if (row_var_ >= 0 && in_tile(p)) out = place_of(row_var_, rows_, 1);
  if (vec_var_ >= 0 && output_has_axis(p, vec_axis_)) {
    const Place row = place_of(vec_var_, regs_, lanes_);
    out.axes.insert(out.axes.end(), row.axes.begin(), row.axes.end());
  }
  return out;
}

TileBody Stitch::grid_loops() {
  std::vector<std::pair<int, int64_t>> dims;
  for (const int a : grid_) {
    dims.emplace_back(a, a == vec_axis_ ? lanes_ * regs_ : a == row_axis_ ? rows_ : 1);
  }
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  for (const auto& [axis, step] : dims) {
    grid.dims.push_back(b_.loop_dim(axis, step));
    if (axis == vec_axis_) vec_var_ = grid.dims.back().offset;
    if (axis == row_axis_) row_var_ = grid.dims.back().offset;
  }
  if (chunked_) {
    const int64_t extent = axes_.axes[static_cast<size_t>(vec_axis_)].extent;
    TileLoop::Dim chunk = b_.loop_dim(vec_axis_, 1);
    chunk.end = (extent + kStitchChunk - 1) / kStitchChunk;
    b_.bind(vec_axis_,
            IndexExpr::var(chunk.origin));  // the chunk's number until the sweep binds the axis
    grid.dims.push_back(chunk);
  }
  grid.body = row_body();
  return b_.one_nest(std::move(grid));
}

TileBody Stitch::row_body() {
  TileBody body;
  for (int level = 0; level < axes_.levels; ++level) {
    emit_row_scalars(level, &body);
    emit_sweep(level, &body);
  }
  return body;
}

/// Coordinates of a local value: the row of the tile, the inner axes that it runs along, then the
/// vector axis of the grid. The vector axis comes last, so that a kept value is stored and loaded
/// as whole vectors.
std::vector<IndexExpr> Stitch::coordinates(int p) const {
  std::vector<IndexExpr> out;
  if (in_tile(p)) out.push_back(b_.index(row_axis_));
  if (!reduces(p)) {
    for (const int a : inner_) {
      if (has_axis(axes_, p, a)) out.push_back(b_.index(a));
    }
  }
  if (vec_axis_ >= 0 && !row_vector_ && output_has_axis(p, vec_axis_)) {
    out.push_back(b_.index(vec_axis_));
  }
  return out;
}

ScalarRef Stitch::read_local(int producer) const {
  const DType type = b_.result_type(producer);
  for (const auto* table : {&here_, &stored_, &scalars_}) {
    const auto it = table->find(producer);
    if (it != table->end()) return scalar_read(it->second, type, coordinates(producer));
  }
  throw_internal_error(__FILE__, __LINE__, "read_local", "a member is read before it is made");
}

void Stitch::emit_member(int p, TileBody* body) {
  const auto local = [&](int producer, const Scalar&) { return read_local(producer); };
  ScalarRef value = b_.translate(p, local);
  const bool row = is_row_value(p);
  const TileSymbolId symbol = add_value(p, "_v", b_.result_type(p));
  body->push_back(TileNode::of(assign(symbol, coordinates(p), std::move(value), place(p))));
  (row ? here_ : scalars_)[p] = symbol;
  if (row && kept_[static_cast<size_t>(p)] && stored_.find(p) == stored_.end()) stored_[p] = symbol;
}

/// Members that differ along the grid only, of one level; and the finished outputs among them.
void Stitch::emit_row_scalars(int level, TileBody* body) {
  here_.clear();
  for (int p = 0; p < count_; ++p) {
    if (axes_.level[static_cast<size_t>(p)] != level || is_row_value(p) || reduces(p)) continue;
    emit_member(p, body);
    if (!is_output(p)) continue;
    body->push_back(TileNode::of(b_.store(p, read_local(p), place(p))));
  }
}

/// Row values that the sweep of a level computes: what its reductions, outputs and kept values
/// need, and cheap values of earlier levels again.
std::set<int> Stitch::needed_in(int level) const {
  std::set<int> needed;
  std::vector<int> work;
  for (int p = 0; p < count_; ++p) {
    if (axes_.level[static_cast<size_t>(p)] != level) continue;
    if (reduces(p) || (is_row_value(p) && (is_output(p) || kept_[static_cast<size_t>(p)])))
      work.push_back(p);
  }
  while (!work.empty()) {
    const int p = work.back();
    work.pop_back();
    if (!needed.insert(p).second) continue;
    visit(b_.expr(p).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      const int producer = axes_.producer(s.symbol);
      if (producer < 0 || !is_row_value(producer)) return;
      const bool earlier = axes_.level[static_cast<size_t>(producer)] < level;
      if (!(earlier && kept_[static_cast<size_t>(producer)])) work.push_back(producer);
    });
  }
  return needed;
}

void Stitch::emit_sweep(int level, TileBody* body) {
  const std::set<int> needed = needed_in(level);
  if (needed.empty()) return;
  is_guarded(level) ? emit_guarded_sweep(level, needed, body) : emit_sweep(level, needed, body);
}

void Stitch::emit_sweep(int level, const std::set<int>& needed, TileBody* body) {
  here_.clear();
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  for (const int a : inner_) {
    const bool vector = a == vec_axis_;
    const IndexExpr chunk = b_.index(a);
    TileLoop::Dim dim = b_.loop_dim(a, vector ? lanes_ * regs_ : 1);
    if (vector && chunked_) {
      dim.begin = chunk * kStitchChunk;
      dim.end = min(chunk * kStitchChunk + kStitchChunk, axes_.axes[static_cast<size_t>(a)].extent);
    }
    if (vector) vec_var_ = dim.offset;
    if (is_written_out(space_, choice_)) dim.unroll = 0;
    loop.dims.push_back(dim);
  }
  TileBody after;
  for (const int p : needed) {
    if (reduces(p)) {
      const Combiner c = b_.expr(p).combiner;
      (c == Combiner::kArgMax || c == Combiner::kArgMin
           ? emit_arg_carry(p, &loop, &loop.body, &after)
           : emit_carry(p, &loop, &loop.body, &after));
      continue;
    }
    emit_member(p, &loop.body);
    const bool first = axes_.level[static_cast<size_t>(p)] == level;
    if (first && is_output(p)) {
      loop.body.push_back(TileNode::of(b_.store(p, read_local(p), place(p))));
    }
  }
  if (loop.dims.empty()) {
    for (TileNode& node : loop.body) body->push_back(std::move(node));
  } else {
    body->push_back(TileNode::of(std::move(loop)));
  }
  here_.clear();
  for (TileNode& node : after) body->push_back(std::move(node));
}

void Stitch::emit_carry(int p, TileLoop* loop, TileBody* update, TileBody* after) {
  const auto local = [&](int producer, const Scalar&) { return read_local(producer); };
  const ScalarRef term = scalar_convert(b_.translate(p, local), b_.expr(p).accumulator);
  scalars_[p] = emit_reduction(p, "", term, loop, update, after);
  // A guarded moment is stored behind its guard.
  if (is_output(p) && !is_second_moment(p))
    after->push_back(TileNode::of(b_.store(p, read_local(p), place(p))));
  const bool guarded = std::any_of(moments_.begin(), moments_.end(),
                                   [&](const CentralMoment& m) { return m.sum == p; });
  if (guarded) {
    const ScalarRef square = scalar_apply(ScalarOp::kMul, {term, term}, term->type);
    squares_[p] = emit_reduction(p, "_q", square, loop, update, after);
  }
}

/// The reduction of a member with these terms; its value behind the sweep. `prefix` sets its names
/// apart from those of another reduction of the member.
TileSymbolId Stitch::emit_reduction(int p, const std::string& prefix, const ScalarRef& term,
                                    TileLoop* loop, TileBody* update, TileBody* after) {
  const TensorExpr& e = b_.expr(p);
  const DType acc = e.accumulator;
  const TileSymbolId carry = add_value(p, prefix + "_c", acc, TileSymbol::Kind::kCarry);
  const bool has_vector = vec_axis_ >= 0 && has_axis(axes_, p, vec_axis_);
  std::vector<IndexExpr> box;
  if (in_tile(p)) box.push_back(b_.index(row_axis_));
  if (has_vector) box.push_back(row_vector_ ? IndexExpr::var(vec_var_) : b_.index(vec_axis_));
  const Place result_place = place(p);
  Place where = result_place;
  if (has_vector && row_vector_) {
    const Place row = place();
    where.axes.insert(where.axes.end(), row.axes.begin(), row.axes.end());
  }
  loop->carries.push_back(
      carried(carry, box, scalar_constant(combiner_identity(e.combiner, acc)), where));
  update->push_back(TileNode::of(assign_next(
      carry, box, combine_scalars(e.combiner, scalar_read(carry, acc, box), term), where)));

  // The lanes and copies of a carry along the row come together after the sweep.
  TileSymbolId sum = carry;
  if (has_vector && row_vector_) {
    const TileVarId jj =
        b_.program().add_var(b_.unique("jj"), TileVar::Kind::kAxis, lanes_ * regs_);
    sum = add_value(p, prefix + "_r", acc);
    std::vector<IndexExpr> all = coordinates(p);
    all.push_back(IndexExpr::var(jj));
    Place whole = result_place;
    const Place row = place_of(jj, regs_, lanes_);
    whole.axes.insert(whole.axes.end(), row.axes.begin(), row.axes.end());
    after->push_back(
        TileNode::of(assign_reduced(sum, coordinates(p), e.combiner, {jj},
                                    scalar_read(carry, acc, std::move(all)), std::move(whole))));
  }
  const std::vector<IndexExpr> result = coordinates(p);
  const DType type = b_.result_type(p);
  const TileSymbolId value = add_value(p, prefix + "_v", type);
  after->push_back(TileNode::of(
      assign(value, result, scalar_convert(scalar_read(sum, acc, result), type), result_place)));
  return value;
}

namespace {

/// Whether x is better than the best before it, or the first of all.
ScalarRef is_better_value(const TensorExpr& e, const ScalarRef& x, const ScalarRef& best,
                          const ScalarRef& where) {
  const auto truth = [](ScalarOp op, std::vector<ScalarRef> operands) {
    return scalar_apply(op, std::move(operands), DType::kBool);
  };
  const ScalarOp compare = best_of(e) == Combiner::kMax
                               ? (e.last_on_ties ? ScalarOp::kGe : ScalarOp::kGt)
                               : (e.last_on_ties ? ScalarOp::kLe : ScalarOp::kLt);
  const ScalarRef first = truth(ScalarOp::kEq, {where, no_position(e)});
  const ScalarRef better = truth(ScalarOp::kOr, {truth(compare, {x, best}), first});
  if (!is_float(x->type)) return better;
  const ScalarRef x_nan = truth(ScalarOp::kIsNan, {x});
  const ScalarRef best_is_number = truth(ScalarOp::kNot, {truth(ScalarOp::kIsNan, {best})});
  return truth(ScalarOp::kOr,
               {truth(ScalarOp::kAnd, {better, best_is_number}),
                e.last_on_ties ? x_nan : truth(ScalarOp::kAnd, {x_nan, best_is_number})});
}

}  // namespace

/// Two carries, the best value and where it stood. NaN counts as best.
void Stitch::emit_arg_carry(int p, TileLoop* loop, TileBody* update, TileBody* after) {
  const TensorExpr& e = b_.expr(p);
  const auto local = [&](int producer, const Scalar&) { return read_local(producer); };
  const ScalarRef x = b_.translate(p, local);
  const DType vt = x->type, it = DType::kI64;
  const int axis = axes_.axis_of[static_cast<size_t>(p)][static_cast<size_t>(e.output_rank())];
  const bool has_vector = vec_axis_ >= 0 && has_axis(axes_, p, vec_axis_);
  std::vector<IndexExpr> box;
  if (has_vector) box.push_back(row_vector_ ? IndexExpr::var(vec_var_) : b_.index(vec_axis_));
  const Place where = has_vector ? place() : Place{};
  const TileSymbolId best = add_value(p, "_c", vt, TileSymbol::Kind::kCarry);
  const TileSymbolId where_best = add_value(p, "_p", it, TileSymbol::Kind::kCarry);
  loop->carries.push_back(
      carried(best, box, scalar_constant(combiner_identity(best_of(e), vt)), where));
  loop->carries.push_back(carried(where_best, box, no_position(e), where));
  const ScalarRef old_best = scalar_read(best, vt, box),
                  old_where = scalar_read(where_best, it, box);
  const ScalarRef position = scalar_index(b_.index(axis));
  const TileSymbolId flag = add_value(p, "_b", DType::kBool);
  update->push_back(
      TileNode::of(assign(flag, box, is_better_value(e, x, old_best, old_where), where)));
  const ScalarRef is_better = scalar_read(flag, DType::kBool, box);
  update->push_back(TileNode::of(
      assign_next(where_best, box,
                  scalar_apply(ScalarOp::kSelect, {is_better, position, old_where}, it), where)));
  update->push_back(TileNode::of(assign_next(
      best, box, scalar_apply(ScalarOp::kSelect, {is_better, x, old_best}, vt), where)));

  const bool in_lanes = has_vector && row_vector_;
  const TileSymbolId result = in_lanes ? emit_best_lane(p, best, where_best, after) : where_best;
  const DType type = b_.result_type(p);
  const std::vector<IndexExpr> coords = coordinates(p);
  const TileSymbolId value = add_value(p, "_v", type);
  const Place result_place = coords.empty() ? Place{} : place();
  after->push_back(TileNode::of(
      assign(value, coords, scalar_convert(scalar_read(result, it, coords), type), result_place)));
  scalars_[p] = value;
  if (is_output(p))
    after->push_back(TileNode::of(b_.store(p, scalar_read(value, type, coords), result_place)));
}

/// The position of the best among the lanes and copies of a vector.
TileSymbolId Stitch::emit_best_lane(int p, TileSymbolId best, TileSymbolId where, TileBody* after) {
  const TensorExpr& e = b_.expr(p);
  const TileVarId jj = b_.program().add_var(b_.unique("jj"), TileVar::Kind::kAxis, lanes_ * regs_);
  const std::vector<IndexExpr> at{IndexExpr::var(jj)};
  const Place place = place_of(jj, regs_, lanes_);
  const DType type = b_.type_of(best);
  const TileSymbolId top = add_value(p, "_m", type);
  const ScalarRef value = scalar_read(best, type, at);
  after->push_back(TileNode::of(assign_reduced(top, {}, best_of(e), {jj}, value, place)));
  const TileSymbolId result = add_value(p, "_r", DType::kI64);
  const ScalarRef position = scalar_apply(ScalarOp::kSelect,
                                          {same_value(value, scalar_read(top, type, {})),
                                           scalar_read(where, DType::kI64, at), no_position(e)},
                                          DType::kI64);
  after->push_back(TileNode::of(assign_reduced(result, {}, pick_of(e), {jj}, position, place)));
  return result;
}

ScheduledKernel build_stitch(const GroupSpace& space, const SweepChoice& choice,
                             const std::string& name) {
  return Stitch(space, choice, name).build();
}

}  // namespace weft

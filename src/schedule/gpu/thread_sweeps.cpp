#include <algorithm>

#include "expr/analysis/dependence.h"
#include "schedule/gpu/thread_stitch_builder.h"
#include "schedule/writer/statements.h"

namespace weft {

/// The total in the type of the tensor, stored where it is an output.
void ThreadStitch::finish_reduction(int p, TileSymbolId total, TileBody* out) {
  const DType type = type_of(p);
  made_[p] = total;
  if (b_.type_of(total) != type) {
    const TileSymbolId value = add_value(p, "_v", type);
    out->push_back(TileNode::of(assign(value, free_coordinates(p),
                                       scalar_convert(read_result(p, total), type), full_place())));
    made_[p] = value;
  }
  if (is_output(p)) emit_store(p, out);
}

/// Row values that a sweep computes: what its reductions and outputs need, those of earlier levels
/// again.
std::set<int> ThreadStitch::needed_in(int level) const {
  std::set<int> needed;
  std::vector<int> work;
  for (int p = 0; p < count_; ++p) {
    if (axes_.level[static_cast<size_t>(p)] != level) continue;
    if (reduces(p) || (is_row_value(p) && is_output(p))) work.push_back(p);
  }
  while (!work.empty()) {
    const int p = work.back();
    work.pop_back();
    if (!needed.insert(p).second) continue;
    if (joined_.with_second(p) != nullptr) continue;  // made with its sum
    visit(b_.expr(p).body, [&](const Scalar& s) {
      const int producer = s.kind == Scalar::Kind::kRead ? axes_.producer(s.symbol) : -1;
      if (producer >= 0 && is_row_value(producer)) work.push_back(producer);
    });
  }
  return needed;
}

/// Over the row, or over the block's part of it.
TileLoop ThreadStitch::row_loop() {
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  for (const int a : layout_.row) {
    const int64_t step = std::max<int64_t>(digits_extent(digits_of(a)), 1);
    loop.dims.push_back(b_.loop_dim(a, step));
    if (a == layout_.split) {
      const IndexExpr begin = IndexExpr::var(split_.origin);
      loop.dims.back().begin = begin;
      loop.dims.back().end = extent(a) % layout_.part == 0
                                 ? begin + layout_.part
                                 : min(begin + layout_.part, IndexExpr(extent(a)));
    }
    if (step > 1) {
      var_[a] = loop.dims.back().offset;
    } else {
      var_.erase(a);
    }
  }
  return loop;
}

/// One pass over the row. Where positions are asked for, the best value and its position are
/// carried together.
std::vector<ThreadStitch::Partial> ThreadStitch::emit_sweep(int level, TileBody* out) {
  const std::set<int> needed = needed_in(level);
  if (needed.empty()) return {};
  TileLoop loop = row_loop();
  std::vector<Carried> carried;
  for (const int p : needed) {
    if (joined_.with_second(p) != nullptr) continue;
    if (joined_.with_sum(p) != nullptr) {
      carried.push_back(carry_moments(p, &loop));
    } else if (reduces(p)) {
      carried.push_back(carry_reduction(p, &loop));
    } else {
      emit_member(p, &loop.body);
      if (is_output(p) && axes_.level[static_cast<size_t>(p)] == level) {
        emit_store(p, &loop.body);
      }
    }
  }
  out->push_back(TileNode::of(std::move(loop)));
  for (const int a : layout_.row) var_.erase(a);
  std::vector<Partial> partials;
  for (const Carried& c : carried) {
    if (c.shift >= 0) {
      finish_moments(c, out, &partials);
      continue;
    }
    const TensorExpr& e = b_.expr(c.member);
    const bool position = c.position >= 0;
    Partial r{c.member, -1, -1};
    r.total = emit_total(
        c.total, c.member, "_r", position ? best_of(e) : e.combiner,
        [](const ScalarRef& kept) { return kept; }, out);
    if (position) {
      r.position = emit_total(
          c.position, c.member, "_w", pick_of(e),
          [&](const ScalarRef& kept) {
            const ScalarRef value = scalar_read(c.total, b_.type_of(c.total), kept->indices);
            return scalar_apply(
                ScalarOp::kSelect,
                {same_value(value, read_result(c.member, r.total)), kept, no_position(e)},
                DType::kI64);
          },
          out);
    }
    partials.push_back(r);
  }
  return partials;
}

ThreadStitch::Carried ThreadStitch::carry_reduction(int p, TileLoop* loop) {
  const TensorExpr& e = b_.expr(p);
  const Combiner combiner = keeps_position(e) ? best_of(e) : e.combiner;
  const ScalarRef x = contribution(p);
  ScalarRef best;
  Carried out;
  out.member = p;
  out.total = emit_carry(loop, p, "_c", scalar_constant(combiner_identity(combiner, x->type)),
                         [&](const ScalarRef& old) {
                           best = old;
                           return combine_scalars(combiner, old, x);
                         });
  if (keeps_position(e)) {
    out.position = emit_carry(loop, p, "_p", no_position(e), [&](const ScalarRef& old) {
      return next_position(e, x, best, old, position_along(p));
    });
  }
  return out;
}

/// Each thread's elements relative to the first of them.
ThreadStitch::Carried ThreadStitch::carry_moments(int p, TileLoop* loop) {
  std::vector<IndexExpr> box = free_coordinates(p);
  for (const int a : layout_.row) box.push_back(b_.index(a));
  const TileSymbolId value = add_value(p, "_x", b_.expr(p).accumulator);
  loop->body.push_back(TileNode::of(assign(value, box, contribution(p), full_place())));
  const ScalarRef x = scalar_read(value, b_.type_of(value), box);
  const ScalarRef zero = scalar_constant(float_value(x->type, 0));
  ScalarRef first;
  for (const TileLoop::Dim& dim : loop->dims) {
    const ScalarRef here = at_origin(dim.origin, dim.begin);
    first = first ? scalar_apply(ScalarOp::kAnd, {first, here}, DType::kBool) : here;
  }
  ScalarRef shift;
  Carried out;
  out.member = p;
  out.shift = emit_carry(loop, p, "_k", zero, [&](const ScalarRef& old) -> ScalarRef {
    Scalar next = *old;
    next.next = true;
    shift = std::make_shared<const Scalar>(std::move(next));
    return scalar_apply(ScalarOp::kSelect, {first, shift_of(x), old}, x->type);
  });
  const ScalarRef d = scalar_apply(ScalarOp::kSub, {x, shift}, x->type);
  const auto add = [&](const ScalarRef& to, const ScalarRef& term) {
    return scalar_apply(ScalarOp::kAdd, {to, term}, x->type);
  };
  out.total = emit_carry(loop, p, "_c", zero, [&](const ScalarRef& old) { return add(old, d); });
  out.squares = emit_carry(loop, p, "_q", zero, [&](const ScalarRef& old) {
    return add(old, scalar_apply(ScalarOp::kMul, {d, d}, x->type));
  });
  return out;
}

/// Elements of a row that one of the threads' slots had in a sweep.
ScalarRef ThreadStitch::terms_of_slot(DType type) const {
  ScalarRef out = scalar_constant(float_value(type, 1));
  for (const int a : layout_.row) {
    const int64_t step = std::max<int64_t>(digits_extent(digits_of(a)), 1);
    const IndexExpr length =
        a == layout_.split ? length_of_part(IndexExpr::var(split_.origin)) : IndexExpr(extent(a));
    const auto slot = behind_.find(a);
    const IndexExpr offset = slot != behind_.end() ? IndexExpr::var(slot->second) : IndexExpr(0);
    const ScalarRef terms =
        scalar_convert(scalar_index(floor_div(length - offset + (step - 1), step)), type);
    out = scalar_apply(ScalarOp::kMul, {out, terms}, type);
  }
  return out;
}

/// Elements of the part of a row that begins there, or of a whole row.
ScalarRef ThreadStitch::terms_of_part(const IndexExpr& begin, DType type) const {
  IndexExpr terms = 1;
  for (const int a : layout_.row) {
    terms = terms * (a == layout_.split ? length_of_part(begin) : IndexExpr(extent(a)));
  }
  return scalar_convert(scalar_index(terms), type);
}

/// The block's total and second moment of what its threads have.
void ThreadStitch::finish_moments(const Carried& c, TileBody* out, std::vector<Partial>* partials) {
  const DType type = b_.type_of(c.total);
  const auto sums = [&](const ScalarRef& kept) {
    const auto also = [&](TileSymbolId s) { return scalar_read(s, type, kept->indices); };
    return ShiftedSums{terms_of_slot(type), also(c.shift), kept, also(c.squares)};
  };
  const TileSymbolId total = emit_total(
      c.total, c.member, "_r", Combiner::kSum,
      [&](const ScalarRef& kept) { return total_of(sums(kept)); }, out);
  const IndexExpr begin = layout_.split >= 0 ? IndexExpr::var(split_.origin) : IndexExpr(0);
  const ScalarRef mean =
      mean_of(c.member, read_result(c.member, total), terms_of_part(begin, type));
  const int second = joined_.with_sum(c.member)->second;
  const TileSymbolId moment = emit_total(
      c.total, second, "_r", Combiner::kSum,
      [&](const ScalarRef& kept) { return moment_about(sums(kept), mean); }, out);
  partials->push_back({c.member, total, -1});
  partials->push_back({second, moment, -1});
}

/// The second moment of a block's part of a row about the part's own mean.
ThreadStitch::Partial ThreadStitch::emit_moment(const CentralMoment& pair,
                                                const std::vector<Partial>& made, TileBody* out) {
  const auto sum = std::ranges::find(made, pair.sum, &Partial::member);
  const ScalarRef x = contribution(pair.sum);
  const IndexExpr begin = layout_.split >= 0 ? IndexExpr::var(split_.origin) : IndexExpr(0);
  const ScalarRef mean =
      mean_of(pair.sum, read_result(pair.sum, sum->total), terms_of_part(begin, x->type));
  const ScalarRef d = scalar_apply(ScalarOp::kSub, {x, mean}, x->type);
  const TileSymbolId moment = add_value(pair.second, "_r", x->type);
  out->push_back(TileNode::of(
      assign_reduced(moment, free_coordinates(pair.second), Combiner::kSum, row_axes_of(pair.sum),
                     scalar_apply(ScalarOp::kMul, {d, d}, x->type), full_place())));
  return {pair.second, moment, -1};
}

/// A carry over the boxes of a sweep: one element for each of the box.
TileSymbolId ThreadStitch::emit_carry(TileLoop* loop, int p, const std::string& suffix,
                                      const ScalarRef& initial,
                                      const std::function<ScalarRef(const ScalarRef& old)>& next) {
  std::vector<IndexExpr> box = free_coordinates(p);
  for (const int a : layout_.row) {
    if (var_.count(a) != 0) box.push_back(IndexExpr::var(var_.at(a)));
  }
  const Place place = full_place();
  const DType type = initial->type;
  const TileSymbolId carry = add_value(p, suffix, type, TileSymbol::Kind::kCarry);
  loop->carries.push_back(carried(carry, box, initial, place));
  loop->body.push_back(
      TileNode::of(assign_next(carry, box, next(scalar_read(carry, type, box)), place)));
  return carry;
}

/// The reduction of what threads hold behind the loop, each element as `value` makes it.
TileSymbolId ThreadStitch::emit_total(TileSymbolId carry, int p, const std::string& suffix,
                                      Combiner combiner,
                                      const std::function<ScalarRef(const ScalarRef& kept)>& value,
                                      TileBody* out) {
  std::vector<IndexExpr> behind = free_coordinates(p);
  std::vector<TileVarId> reduced;
  for (const int a : layout_.row) {
    if (behind_.count(a) == 0) continue;
    reduced.push_back(behind_.at(a));
    behind.push_back(IndexExpr::var(reduced.back()));
  }
  const ScalarRef kept = scalar_read(carry, b_.type_of(carry), behind);
  const TileSymbolId total = add_value(p, suffix, kept->type);
  out->push_back(TileNode::of(reduced.empty()
                                  ? assign(total, free_coordinates(p), value(kept), full_place())
                                  : assign_reduced(total, free_coordinates(p), combiner,
                                                   std::move(reduced), value(kept), full_place())));
  return total;
}

}  // namespace weft

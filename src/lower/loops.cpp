#include <algorithm>

#include "lower/lowering.h"

namespace weft::lowering {

IndexExpr Lowering::add_kernel_var(Reg reg, Interval range) {
  kernel_vars_.push_back({reg, range, {}, -1, {}});
  return IndexExpr::var(kKernelVarBase + static_cast<int>(kernel_vars_.size()) - 1);
}

void Lowering::emit_body(const TileBody& body) {
  for (size_t n = 0; n < body.size(); ++n) {
    const TileSymbolId carry = n + 1 < body.size() ? accumulates(body[n], body[n + 1]) : -1;
    if (carry < 0) {
      emit_node(body[n], static_cast<int32_t>(n));
      continue;
    }
    const TileStatement& product = body[n].statement;
    emit_matrix_product(product, *unit_product(program_, product), carry);
    ++n;  // the sum is the unit's own
  }
}

void Lowering::emit_node(const TileNode& node, int32_t child) {
  if (gpu_) {
    emit_grid_barrier_before(child);
    path_.push_back(child);
  }
  switch (node.kind) {
    case TileNode::Kind::kStatement:
      if (prefetched_.count(&node.statement) == 0) emit_statement(node.statement);
      break;
    case TileNode::Kind::kCondition:
      emit_condition(*node.condition);
      break;
    case TileNode::Kind::kLoop:
      WEFT_CHECK(node.loop->kind == TileLoop::Kind::kSeq,
                 "a grid loop inside a seq loop in " + program_.name);
      if (!node.loop->by_cluster) emit_seq_loop(*node.loop);  // those are made before the items
      break;
    case TileNode::Kind::kPack:
      throw_internal_error(__FILE__, __LINE__, "pack", "below the top of " + program_.name);
  }
  if (gpu_) path_.pop_back();
}

/// Iterations of a loop whose carries have two buffers read one and write the other in turns.
void Lowering::bind_carried_buffers(const TileLoop& loop, const IndexExpr& iteration) {
  for (const TileCarry& carry : loop.carries) {
    const TileSymbolId symbol = carry.target.symbol;
    if (scopes_.symbols[static_cast<size_t>(symbol)].copies < 2) continue;
    WEFT_CHECK(loop.dims.size() == 1,
               "carries with two buffers over several loops of one header in " + program_.name);
    rotating_.insert(buffer_of_[static_cast<size_t>(symbol)]);
    carried_buffers_[symbol] =
        simplify(mod(iteration, 2), [this](int id) { return range_of_var(id); });
  }
}

void Lowering::emit_seq_loop(const TileLoop& loop) {
  bind_carried_buffers(loop, 0);
  std::vector<Reg> carries;
  for (const TileCarry& carry : loop.carries) {
    const std::vector<Reg> initial = initial_carry(carry);
    carries.insert(carries.end(), initial.begin(), initial.end());
  }
  const std::vector<Reg> last = emit_iterations(loop, std::move(carries));
  size_t next = 0;
  for (const TileCarry& carry : loop.carries) {
    const auto it = tiles_.find(carry.target.symbol);
    if (buffer_of_[static_cast<size_t>(carry.target.symbol)] >= 0) continue;
    for (Reg& r : it->second.regs) r = last[next++];
  }
}

/// All iterations, from the first values of the carries in registers to their last.
std::vector<Reg> Lowering::emit_iterations(const TileLoop& loop, std::vector<Reg> carries) {
  ++repetitions_;
  std::vector<Reg> last = is_staged(loop) ? emit_staged_loop(loop, std::move(carries))
                                          : emit_seq_dim(loop, 0, std::move(carries));
  --repetitions_;
  const TileLoop::Dim& dim = loop.dims[0];
  bind_carried_buffers(
      loop, floor_div(max(bind(dim.end) - bind(dim.begin), 0) + (dim.step - 1), dim.step));
  return last;
}

std::vector<Reg> Lowering::emit_seq_dim(const TileLoop& loop, size_t dim,
                                        std::vector<Reg> carries) {
  if (dim == loop.dims.size()) {
    size_t next = 0;
    for (const TileCarry& carry : loop.carries) {
      if (buffer_of_[static_cast<size_t>(carry.target.symbol)] >= 0) continue;
      next_tiles_.erase(carry.target.symbol);
      for (Reg& r : tiles_.at(carry.target.symbol).regs) r = carries[next++];
    }
    if (const auto pieces = distributed_.find(&loop); pieces != distributed_.end()) {
      emit_pieces(*pieces->second);
    } else {
      emit_body(loop.body);
    }
    std::vector<Reg> out;
    for (const TileCarry& carry : loop.carries) {
      if (buffer_of_[static_cast<size_t>(carry.target.symbol)] >= 0) continue;
      const auto updated = next_tiles_.find(carry.target.symbol);
      const auto& regs =
          updated != next_tiles_.end() ? updated->second.regs : tiles_.at(carry.target.symbol).regs;
      out.insert(out.end(), regs.begin(), regs.end());
    }
    return out;
  }
  const TileLoop::Dim& d = loop.dims[dim];
  const auto range = [this](int id) { return range_of_var(id); };
  const IndexExpr begin = simplify(bind(d.begin), range), end = simplify(bind(d.end), range);
  if (begin.is_const() && end.is_const()) {
    return emit_constant_dim(loop, dim, std::move(carries), begin.constant(), end.constant());
  }
  return emit_runtime_dim(loop, dim, std::move(carries), begin, end);
}

std::vector<Reg> Lowering::emit_iteration(const TileLoop& loop, size_t dim, const IndexExpr& origin,
                                          std::vector<Reg> carries) {
  const auto var = static_cast<size_t>(loop.dims[dim].origin);
  const auto outer = bound_[var];
  bound_[var] = origin;
  bind_carried_buffers(loop, floor_div(origin - bind(loop.dims[dim].begin), loop.dims[dim].step));
  std::vector<Reg> out = emit_seq_dim(loop, dim + 1, std::move(carries));
  bound_[var] = outer;
  return out;
}

std::vector<Reg> Lowering::emit_constant_dim(const TileLoop& loop, size_t dim,
                                             std::vector<Reg> carries, int64_t begin, int64_t end) {
  const TileLoop::Dim& d = loop.dims[dim];
  const int64_t extent = std::max<int64_t>(end - begin, 0);
  const int64_t trips = extent / d.step, rest = extent % d.step;
  for (const Piece& piece : split_iterations(loop.body, d, begin, trips)) {
    const int64_t count = piece.end - piece.begin;
    const int64_t unroll = d.unroll == 0 ? count : std::min(d.unroll, count);
    const int64_t looped = unroll == 0 ? 0 : count / unroll * unroll;
    if (looped > unroll) {
      carries = builder_.for_loop(
          builder_.int_constant(piece.begin), builder_.int_constant(piece.begin + looped), unroll,
          std::move(carries), [&](Reg iv, const std::vector<Reg>& in) {
            const IndexExpr t = add_kernel_var(iv, {piece.begin, piece.begin + looped - unroll});
            std::vector<Reg> state = in;
            for (int64_t u = 0; u < unroll; ++u) {
              state = emit_iteration(loop, dim, (t + u) * d.step + begin, std::move(state));
            }
            return state;
          });
    }
    for (int64_t t = looped > unroll ? piece.begin + looped : piece.begin; t < piece.end; ++t) {
      carries = emit_iteration(loop, dim, begin + t * d.step, std::move(carries));
    }
  }
  if (rest != 0) {
    auto& valid = valid_[static_cast<size_t>(d.offset)];
    const auto outer = valid;
    valid = Valid{rest, kNoReg};
    carries = emit_iteration(loop, dim, begin + trips * d.step, std::move(carries));
    valid = outer;
  }
  return carries;
}

std::vector<Reg> Lowering::emit_runtime_dim(const TileLoop& loop, size_t dim,
                                            std::vector<Reg> carries, const IndexExpr& begin,
                                            const IndexExpr& end) {
  const TileLoop::Dim& d = loop.dims[dim];
  const auto range = [this](int id) { return range_of_var(id); };
  const Interval origins{range_of(begin, range).lo,
                         std::max(range_of(begin, range).lo, range_of(end, range).hi - 1)};
  const Reg first = emit_index(begin), last = emit_index(end);
  const auto iteration = [&](Reg iv, const std::vector<Reg>& in) {
    return emit_iteration(loop, dim, add_kernel_var(iv, origins), in);
  };
  if (d.step == 1) return emit_single_steps(loop, dim, std::move(carries), first, last, origins);

  // Whole tiles, then at most one tile of a length known at run time only.
  const Reg step = builder_.int_constant(d.step);
  Reg extent = builder_.apply(ScalarOp::kSub, {last, first}, DType::kI64);
  extent = builder_.apply(ScalarOp::kMax, {extent, builder_.int_constant(0)}, DType::kI64);
  const Reg rest = builder_.apply(ScalarOp::kRem, {extent, step}, DType::kI64);
  Reg whole = builder_.apply(ScalarOp::kAdd,
                             {first, builder_.apply(ScalarOp::kSub, {extent, rest}, DType::kI64)},
                             DType::kI64);
  carries = builder_.for_loop(first, whole, d.step, std::move(carries), iteration);
  const Reg some = builder_.apply(ScalarOp::kGt, {rest, builder_.int_constant(0)}, DType::kBool);
  return builder_.if_then_else(
      some,
      [&] {
        auto& valid = valid_[static_cast<size_t>(d.offset)];
        const auto outer = valid;
        valid = Valid{0, rest};
        std::vector<Reg> out = iteration(whole, carries);
        valid = outer;
        return out;
      },
      [&] { return carries; });
}

/// Predicated off, a carry keeps its value: in its other buffer too.
void Lowering::emit_kept_carries(const TileBody& body) {
  for (const TileNode& node : body) {
    if (node.kind != TileNode::Kind::kStatement) continue;
    const TileRef& target = node.statement.targets[0];
    if (!target.next || carried_buffers_.count(target.symbol) == 0) continue;
    const Place& place_of_carry = scopes_.symbols[static_cast<size_t>(target.symbol)].place;
    TileStatement kept;
    kept.targets = {target};
    kept.value = scalar_read(
        target.symbol, program_.symbols[static_cast<size_t>(target.symbol)].type, target.indices);
    kept_.push_back(kept.value);
    kept.place = node.statement.place.empty() ? place_of_carry : node.statement.place;
    if (gpu_) statement_places_[&kept] = statement_places_.at(&node.statement);
    emit_statement(kept);
    if (gpu_) statement_places_.erase(&kept);
  }
}

/// Iterations one by one, where the schedule asks for it several in a row.
std::vector<Reg> Lowering::emit_single_steps(const TileLoop& loop, size_t dim,
                                             std::vector<Reg> carries, Reg first, Reg last,
                                             Interval origins) {
  const int64_t unroll = std::max<int64_t>(loop.dims[dim].unroll, 1);
  if (unroll > 1) {
    const auto op = [&](ScalarOp o, Reg a, Reg b) {
      return builder_.apply(o, {a, b}, DType::kI64);
    };
    Reg count = op(ScalarOp::kMax, op(ScalarOp::kSub, last, first), builder_.int_constant(0));
    count = op(ScalarOp::kSub, count, op(ScalarOp::kRem, count, builder_.int_constant(unroll)));
    const Reg whole = op(ScalarOp::kAdd, first, count);
    carries = builder_.for_loop(first, whole, unroll, std::move(carries),
                                [&](Reg iv, const std::vector<Reg>& in) {
                                  const IndexExpr origin = add_kernel_var(iv, origins);
                                  std::vector<Reg> state = in;
                                  for (int64_t u = 0; u < unroll; ++u)
                                    state = emit_iteration(loop, dim, origin + u, std::move(state));
                                  return state;
                                });
    first = whole;
  }
  return builder_.for_loop(first, last, 1, std::move(carries),
                           [&](Reg iv, const std::vector<Reg>& in) {
                             return emit_iteration(loop, dim, add_kernel_var(iv, origins), in);
                           });
}

void Lowering::emit_condition(const TileCondition& condition) {
  begin_evaluation(Box{});
  kept_.push_back(condition.condition);
  if (const auto known = decide(condition.condition, {})) {
    *known ? emit_body(condition.body) : emit_kept_carries(condition.body);
    return;
  }
  const Reg c = evaluate(condition.condition, {}, kNoReg);
  // Carries assigned inside keep their value when the condition does not hold.
  std::vector<TileSymbolId> assigned;
  for (const TileNode& node : condition.body) {
    if (node.kind != TileNode::Kind::kStatement) continue;
    for (const TileRef& t : node.statement.targets) {
      if (t.next && buffer_of_[static_cast<size_t>(t.symbol)] < 0) assigned.push_back(t.symbol);
    }
  }
  const auto collect = [&](bool updated) {
    std::vector<Reg> out;
    for (const TileSymbolId s : assigned) {
      const auto& regs = updated ? next_tiles_.at(s).regs : tiles_.at(s).regs;
      out.insert(out.end(), regs.begin(), regs.end());
    }
    return out;
  };
  const std::vector<Reg> results = builder_.if_then_else(
      c,
      [&] {
        emit_body(condition.body);
        return collect(true);
      },
      [&] {
        emit_kept_carries(condition.body);
        return collect(false);
      });
  size_t next = 0;
  for (const TileSymbolId s : assigned) {
    for (Reg& r : next_tiles_.at(s).regs) r = results[next++];
  }
}

namespace {

/// The integer comparisons inside a body, each as an expression that is compared with 0.
void collect_predicates(const TileBody& body, std::vector<IndexExpr>* out);

void collect_from(const ScalarRef& s, std::vector<IndexExpr>* out) {
  visit(s, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kApply || !scalar_op_is_comparison(n.op)) return;
    IndexExpr sides[2];
    for (int k = 0; k < 2; ++k) {
      const Scalar& o = *n.operands[static_cast<size_t>(k)];
      if (o.kind == Scalar::Kind::kIndex) {
        sides[k] = o.index;
      } else if (o.kind == Scalar::Kind::kConstant && !is_float(o.type)) {
        sides[k] = o.value.i;
      } else {
        return;
      }
    }
    // e >= 0 holds or fails as the comparison does; equality changes on both sides of zero.
    const IndexExpr d = sides[0] - sides[1];
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

std::vector<IndexExpr> Lowering::predicates_of(const TileBody& body) const {
  std::vector<IndexExpr> predicates;
  collect_predicates(body, &predicates);
  return predicates;
}

std::map<int, Interval> Lowering::inner_ranges(const TileBody& body) const {
  std::map<int, Interval> inner;
  const auto range = [&](int id) -> Interval {
    if (const auto it = inner.find(id); it != inner.end()) return it->second;
    return range_of_var(id);
  };
  collect_loop_ranges(body, &inner, [&](const TileLoop::Dim& d) -> Interval {
    const Interval lo = range_of(bind(d.begin), range), hi = range_of(bind(d.end), range);
    return {lo.lo, std::max(lo.lo, hi.hi - 1)};
  });
  return inner;
}

std::vector<Lowering::Piece> Lowering::split_iterations(const TileBody& body,
                                                        const TileLoop::Dim& dim, int64_t origin0,
                                                        int64_t trips) {
  std::vector<Piece> whole = trips > 0 ? std::vector<Piece>{{0, trips}} : std::vector<Piece>{};
  if (trips < 2 || emitted_statements_ > kMaxEmittedStatements) return whole;
  const std::vector<IndexExpr> predicates = predicates_of(body);
  if (predicates.empty()) return whole;
  const std::map<int, Interval> inner = inner_ranges(body);
  const auto range = [&](int id) -> Interval {
    if (const auto it = inner.find(id); it != inner.end()) return it->second;
    return range_of_var(id);
  };
  std::set<int64_t> cuts{0, trips};
  for (const IndexExpr& p : predicates) {
    AffineForm form;
    if (!as_affine(bind(p), &form)) continue;
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

#include "lower/core/loops.h"

#include <algorithm>

#include "lower/core/decided_range.h"
#include "lower/core/expressions.h"
#include "lower/core/index_emission.h"
#include "lower/core/predicates.h"
#include "lower/core/statements.h"

namespace weft::lowering {

namespace {

void emit_seq_loop(KernelWriter& w, const TileLoop& loop) {
  bind_carried_buffers(w, loop, 0);
  std::vector<Reg> carries;
  for (const TileCarry& carry : loop.carries) {
    const std::vector<Reg> initial = initial_carry(w, carry);
    carries.insert(carries.end(), initial.begin(), initial.end());
  }
  const std::vector<Reg> last = emit_iterations(w, loop, std::move(carries));
  size_t next = 0;
  for (const TileCarry& carry : loop.carries) {
    const auto it = w.registers.tiles.find(carry.target.symbol);
    if (w.memory.buffer_of[static_cast<size_t>(carry.target.symbol)] >= 0) continue;
    for (Reg& r : it->second.regs) r = last[next++];
  }
}

std::vector<Reg> emit_iteration(KernelWriter& w, const TileLoop& loop, size_t dim,
                                const IndexExpr& origin, std::vector<Reg> carries) {
  const auto var = static_cast<size_t>(loop.dims[dim].origin);
  const auto outer = w.bindings.bound[var];
  w.bindings.bound[var] = origin;
  bind_carried_buffers(w, loop,
                       floor_div(origin - bind(w, loop.dims[dim].begin), loop.dims[dim].step));
  std::vector<Reg> out = emit_seq_dim(w, loop, dim + 1, std::move(carries));
  w.bindings.bound[var] = outer;
  return out;
}

/// A loop whose length is a number, wherever it begins.
std::vector<Reg> emit_constant_dim(KernelWriter& w, const TileLoop& loop, size_t dim,
                                   std::vector<Reg> carries, const IndexExpr& begin,
                                   int64_t length) {
  const TileLoop::Dim& d = loop.dims[dim];
  const int64_t extent = std::max<int64_t>(length, 0);
  const int64_t trips = extent / d.step, rest = extent % d.step;
  std::vector<Piece> pieces = {{0, trips}};
  if (begin.is_const()) pieces = split_iterations(w, loop.body, d, begin.constant(), trips);
  for (const Piece& piece : pieces) {
    const int64_t count = piece.end - piece.begin;
    const int64_t unroll = d.unroll == 0 ? count : std::min(d.unroll, count);
    const int64_t looped = unroll == 0 ? 0 : count / unroll * unroll;
    if (looped > unroll) {
      carries = w.builder.for_loop(
          w.builder.int_constant(piece.begin), w.builder.int_constant(piece.begin + looped), unroll,
          std::move(carries), [&](Reg iv, const std::vector<Reg>& in) {
            const IndexExpr t = add_kernel_var(w, iv, {piece.begin, piece.begin + looped - unroll});
            std::vector<Reg> state = in;
            for (int64_t u = 0; u < unroll; ++u) {
              state = emit_iteration(w, loop, dim, begin + (t + u) * d.step, std::move(state));
            }
            return state;
          });
    }
    for (int64_t t = looped > unroll ? piece.begin + looped : piece.begin; t < piece.end; ++t) {
      carries = emit_iteration(w, loop, dim, begin + t * d.step, std::move(carries));
    }
  }
  if (rest != 0) {
    auto& valid = w.bindings.valid[static_cast<size_t>(d.offset)];
    const auto outer = valid;
    valid = Valid{rest, kNoReg};
    carries = emit_iteration(w, loop, dim, begin + trips * d.step, std::move(carries));
    valid = outer;
  }
  return carries;
}

/// Iterations one by one, where the schedule asks for it several in a row.
std::vector<Reg> emit_single_steps(KernelWriter& w, const TileLoop& loop, size_t dim,
                                   std::vector<Reg> carries, Reg first, Reg last,
                                   Interval origins) {
  const int64_t unroll = std::max<int64_t>(loop.dims[dim].unroll, 1);
  if (unroll > 1) {
    const auto op = [&](ScalarOp o, Reg a, Reg b) {
      return w.builder.apply(o, {a, b}, DType::kI64);
    };
    Reg count = op(ScalarOp::kMax, op(ScalarOp::kSub, last, first), w.builder.int_constant(0));
    count = op(ScalarOp::kSub, count, op(ScalarOp::kRem, count, w.builder.int_constant(unroll)));
    const Reg whole = op(ScalarOp::kAdd, first, count);
    carries = w.builder.for_loop(
        first, whole, unroll, std::move(carries), [&](Reg iv, const std::vector<Reg>& in) {
          const IndexExpr origin = add_kernel_var(w, iv, origins);
          std::vector<Reg> state = in;
          for (int64_t u = 0; u < unroll; ++u)
            state = emit_iteration(w, loop, dim, origin + u, std::move(state));
          return state;
        });
    first = whole;
  }
  return w.builder.for_loop(
      first, last, 1, std::move(carries), [&](Reg iv, const std::vector<Reg>& in) {
        return emit_iteration(w, loop, dim, add_kernel_var(w, iv, origins), in);
      });
}

/// Tiles [0, count) of an open length: those of the left border, those inside, those of the right.
std::vector<Reg> emit_decided_tiles(KernelWriter& w, const TileLoop& loop, size_t dim,
                                    std::vector<Reg> carries, const IndexExpr& begin,
                                    const DecidedRange& decided, Reg count) {
  const int64_t step = loop.dims[dim].step;
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  const auto run = [&](Reg from, Reg to, Interval range, bool is_inside) {
    carries = w.builder.for_loop(
        from, to, 1, std::move(carries), [&](Reg iv, const std::vector<Reg>& in) {
          const size_t known = w.bindings.facts.size();
          const IndexExpr t =
              range.lo == range.hi ? IndexExpr(range.lo) : add_kernel_var(w, iv, range);
          if (is_inside) state_decided(w, decided, t);
          std::vector<Reg> out = emit_iteration(w, loop, dim, t * step + begin, in);
          w.bindings.facts.resize(known);
          return out;
        });
  };
  const Reg border = op(ScalarOp::kMin, count, w.builder.int_constant(decided.from));
  const Reg inside = op(ScalarOp::kMax, border, emit_last_decided(w, decided, count));
  if (decided.from > 0) run(w.builder.int_constant(0), border, {0, decided.from - 1}, false);
  run(border, inside, {decided.from, kOpenIterations.hi}, true);
  run(inside, count, kOpenIterations, false);
  return carries;
}

/// Whole tiles from `first` to `whole`, cut where a predicate changes from decided to undecided or
/// back: `origins` are all that there may be. What an open size decides cuts the longest piece.
std::vector<Reg> emit_whole_tiles(KernelWriter& w, const TileLoop& loop, size_t dim,
                                  std::vector<Reg> carries, Reg first, Reg whole,
                                  Interval origins) {
  const int64_t step = loop.dims[dim].step;
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  const auto num = [&](int64_t v) { return w.builder.int_constant(v); };
  const auto at = [&](const IndexExpr& place) {
    return emit_index(w, simplify(place, [&](int id) { return range_of_var(w, id); }));
  };
  // The first tile at `place` or behind it.
  const auto tile_at = [&](Reg place) {
    const Reg behind = op(ScalarOp::kSub, op(ScalarOp::kAdd, place, num(step - 1)), first);
    const Reg way = op(ScalarOp::kMax, behind, num(0));
    const Reg tiles = op(ScalarOp::kSub, way, op(ScalarOp::kRem, way, num(step)));
    return op(ScalarOp::kMin, op(ScalarOp::kAdd, first, tiles), whole);
  };
  const auto run = [&](Reg from, Reg to, Interval range, auto state) {
    carries = w.builder.for_loop(from, to, step, std::move(carries),
                                 [&](Reg iv, const std::vector<Reg>& in) {
                                   const size_t known = w.bindings.facts.size();
                                   const IndexExpr origin = add_kernel_var(w, iv, range);
                                   state(origin);
                                   std::vector<Reg> out = emit_iteration(w, loop, dim, origin, in);
                                   w.bindings.facts.resize(known);
                                   return out;
                                 });
  };
  const auto nothing = [](const IndexExpr&) {};
  const std::vector<Piece> pieces = split_origins(w, loop.body, loop.dims[dim], origins);
  const auto longest = std::ranges::max_element(
      pieces, {}, [](const Piece& piece) { return piece.end - piece.begin; });
  const std::optional<SizeCut> cut =
      w.vars.arguments > 0 ? size_cut(w, loop.body, loop.dims[dim]) : std::nullopt;
  for (auto piece = pieces.begin(); piece != pieces.end(); ++piece) {
    const Reg from = piece->begin == origins.lo ? first : tile_at(num(piece->begin));
    const Reg to = piece->end > origins.hi ? whole : tile_at(num(piece->end));
    const Interval range{piece->begin, piece->end - 1};
    if (piece != longest || !cut) {
      run(from, to, range, nothing);
      continue;
    }
    const auto inside = [&](Reg tile) {
      return op(ScalarOp::kMin, op(ScalarOp::kMax, tile, from), to);
    };
    const Reg left = inside(tile_at(at(cut->first))), right = inside(tile_at(at(cut->last)));
    run(from, left, range, [&](const IndexExpr& v) { state_decided(w, *cut, v, true); });
    run(left, right, range, nothing);
    run(right, to, range, [&](const IndexExpr& v) { state_decided(w, *cut, v, false); });
  }
  return carries;
}

std::vector<Reg> emit_runtime_dim(KernelWriter& w, const TileLoop& loop, size_t dim,
                                  std::vector<Reg> carries, const IndexExpr& begin,
                                  const IndexExpr& end) {
  const TileLoop::Dim& d = loop.dims[dim];
  const auto range = [&](int id) { return range_of_var(w, id); };
  const Interval origins{range_of(begin, range).lo,
                         std::max(range_of(begin, range).lo, range_of(end, range).hi - 1)};
  const Reg first = emit_index(w, begin), last = emit_index(w, end);
  const auto iteration = [&](Reg iv, const std::vector<Reg>& in) {
    return emit_iteration(w, loop, dim, add_kernel_var(w, iv, origins), in);
  };
  if (d.step == 1) return emit_single_steps(w, loop, dim, std::move(carries), first, last, origins);

  // Whole tiles, then at most one tile of a length known at run time only.
  const Reg step = w.builder.int_constant(d.step);
  Reg extent = w.builder.apply(ScalarOp::kSub, {last, first}, DType::kI64);
  extent = w.builder.apply(ScalarOp::kMax, {extent, w.builder.int_constant(0)}, DType::kI64);
  const Reg rest = w.builder.apply(ScalarOp::kRem, {extent, step}, DType::kI64);
  Reg whole = w.builder.apply(ScalarOp::kAdd,
                              {first, w.builder.apply(ScalarOp::kSub, {extent, rest}, DType::kI64)},
                              DType::kI64);
  // Without open sizes nothing limits what is decided.
  const DecidedRange decided =
      w.vars.arguments > 0 ? decided_range(w, loop.body, d, begin) : DecidedRange{};
  if (decided.limits.empty()) {
    carries = emit_whole_tiles(w, loop, dim, std::move(carries), first, whole, origins);
  } else {
    carries = emit_decided_tiles(w, loop, dim, std::move(carries), begin, decided,
                                 w.builder.apply(ScalarOp::kDiv, {extent, step}, DType::kI64));
  }
  const Reg some = w.builder.apply(ScalarOp::kGt, {rest, w.builder.int_constant(0)}, DType::kBool);
  return w.builder.if_then_else(
      some,
      [&] {
        auto& valid = w.bindings.valid[static_cast<size_t>(d.offset)];
        const auto outer = valid;
        valid = Valid{0, rest};
        std::vector<Reg> out = iteration(whole, carries);
        valid = outer;
        return out;
      },
      [&] { return carries; });
}

/// Predicated off, a carry keeps its value: in its other buffer too.
void emit_kept_carries(KernelWriter& w, const TileBody& body) {
  for (const TileNode& node : body) {
    if (node.kind != TileNode::Kind::kStatement) continue;
    const TileRef& target = node.statement.targets[0];
    if (!target.next || w.memory.carried.count(target.symbol) == 0) continue;
    TileStatement kept;
    kept.targets = {target};
    kept.value = scalar_read(
        target.symbol, w.program.symbols[static_cast<size_t>(target.symbol)].type, target.indices);
    w.at_hand.kept.push_back(kept.value);
    kept.place = w.place_of(node.statement);
    if (kept.place.empty()) {
      kept.place = w.scopes.symbols[static_cast<size_t>(target.symbol)].place;
    }
    emit_statement(w, kept);
  }
}

void emit_condition(KernelWriter& w, const TileCondition& condition) {
  begin_evaluation(w, Box{});
  w.at_hand.kept.push_back(condition.condition);
  if (const auto known = decide(w, condition.condition, {})) {
    *known ? emit_body(w, condition.body) : emit_kept_carries(w, condition.body);
    return;
  }
  const Reg c = evaluate(w, condition.condition, {}, kNoReg);
  // Carries assigned inside keep their value when the condition does not hold.
  std::vector<TileSymbolId> assigned;
  for (const TileNode& node : condition.body) {
    if (node.kind != TileNode::Kind::kStatement) continue;
    for (const TileRef& t : node.statement.targets) {
      if (t.next && w.memory.buffer_of[static_cast<size_t>(t.symbol)] < 0)
        assigned.push_back(t.symbol);
    }
  }
  const auto collect = [&](bool updated) {
    std::vector<Reg> out;
    for (const TileSymbolId s : assigned) {
      const auto& regs = updated ? w.registers.next.at(s).regs : w.registers.tiles.at(s).regs;
      out.insert(out.end(), regs.begin(), regs.end());
    }
    return out;
  };
  const std::vector<Reg> results = w.builder.if_then_else(
      c,
      [&] {
        emit_body(w, condition.body);
        return collect(true);
      },
      [&] {
        emit_kept_carries(w, condition.body);
        return collect(false);
      });
  size_t next = 0;
  for (const TileSymbolId s : assigned) {
    for (Reg& r : w.registers.next.at(s).regs) r = results[next++];
  }
}

}  // namespace

void emit_body(KernelWriter& w, const TileBody& body) {
  for (size_t n = 0; n < body.size();) {
    if (const size_t together = w.emit_together(body, n); together > 0) {
      n += together;
    } else {
      emit_node(w, body[n], static_cast<int32_t>(n));
      ++n;
    }
  }
}

void emit_node(KernelWriter& w, const TileNode& node, int32_t child) {
  w.enter_node(child);
  switch (node.kind) {
    case TileNode::Kind::kStatement:
      if (w.bindings.made_ahead.count(&node.statement) == 0) emit_statement(w, node.statement);
      break;
    case TileNode::Kind::kCondition:
      emit_condition(w, *node.condition);
      break;
    case TileNode::Kind::kLoop:
      WEFT_CHECK(node.loop->kind == TileLoop::Kind::kSeq,
                 "a grid loop inside a seq loop in " + w.program.name);
      if (!node.loop->by_cluster) emit_seq_loop(w, *node.loop);  // those are made before the items
      break;
    case TileNode::Kind::kPack:
      throw_internal_error(__FILE__, __LINE__, "pack", "below the top of " + w.program.name);
  }
  w.leave_node();
}

void bind_carried_buffers(KernelWriter& w, const TileLoop& loop, const IndexExpr& iteration) {
  for (const TileCarry& carry : loop.carries) {
    const TileSymbolId symbol = carry.target.symbol;
    if (w.scopes.symbols[static_cast<size_t>(symbol)].copies < 2) continue;
    WEFT_CHECK(loop.dims.size() == 1,
               "carries with two buffers over several loops of one header in " + w.program.name);
    w.memory.rotating.insert(w.memory.buffer_of[static_cast<size_t>(symbol)]);
    w.memory.carried[symbol] =
        simplify(mod(iteration, 2), [&](int id) { return range_of_var(w, id); });
  }
}

std::vector<Reg> emit_iterations(KernelWriter& w, const TileLoop& loop, std::vector<Reg> carries) {
  ++w.bindings.repetitions;
  std::vector<Reg> last = w.emit_loop(loop, std::move(carries));
  --w.bindings.repetitions;
  const TileLoop::Dim& dim = loop.dims[0];
  bind_carried_buffers(
      w, loop, floor_div(max(bind(w, dim.end) - bind(w, dim.begin), 0) + (dim.step - 1), dim.step));
  return last;
}

std::vector<Reg> emit_seq_dim(KernelWriter& w, const TileLoop& loop, size_t dim,
                              std::vector<Reg> carries) {
  if (dim == loop.dims.size()) {
    size_t next = 0;
    for (const TileCarry& carry : loop.carries) {
      if (w.memory.buffer_of[static_cast<size_t>(carry.target.symbol)] >= 0) continue;
      w.registers.next.erase(carry.target.symbol);
      for (Reg& r : w.registers.tiles.at(carry.target.symbol).regs) r = carries[next++];
    }
    w.emit_loop_body(loop);
    std::vector<Reg> out;
    for (const TileCarry& carry : loop.carries) {
      if (w.memory.buffer_of[static_cast<size_t>(carry.target.symbol)] >= 0) continue;
      const auto updated = w.registers.next.find(carry.target.symbol);
      const auto& regs = updated != w.registers.next.end()
                             ? updated->second.regs
                             : w.registers.tiles.at(carry.target.symbol).regs;
      out.insert(out.end(), regs.begin(), regs.end());
    }
    return out;
  }
  const TileLoop::Dim& d = loop.dims[dim];
  const auto range = [&](int id) { return range_of_var(w, id); };
  const IndexExpr begin = simplify(bind(w, d.begin), range), end = simplify(bind(w, d.end), range);
  const IndexExpr length = simplify(end - begin, range);
  if (length.is_const())
    return emit_constant_dim(w, loop, dim, std::move(carries), begin, length.constant());
  return emit_runtime_dim(w, loop, dim, std::move(carries), begin, end);
}

}  // namespace weft::lowering

#include <algorithm>
#include <numeric>

#include "lower/lowering.h"

/// Loops whose block memory is filled ahead of its iterations. With n stages:
///     copy 0; commit; … copy n-2; commit; registers = load 0
///     for t { store registers; wait n-2; barrier; copy t+n-1; commit; registers = load t+1; body t
///     }
/// Copies go behind the threads' back; what must be computed on the way, or is not aligned to 4
/// bytes, passes through registers one iteration ahead.
namespace weft::lowering {

bool Lowering::is_staged(const TileLoop& loop) const {
  if (!gpu_ || loop.stages < 2 || loop.dims.size() != 1) return false;
  return std::any_of(loop.body.begin(), loop.body.end(), [&](const TileNode& node) {
    return node.kind == TileNode::Kind::kStatement &&
           scopes_.symbols[static_cast<size_t>(node.statement.targets[0].symbol)].staged;
  });
}

std::vector<Lowering::StagedLoad> Lowering::staged_loads(const TileLoop& loop) {
  std::vector<StagedLoad> out;
  for (const TileNode& node : loop.body) {
    if (node.kind != TileNode::Kind::kStatement) continue;
    const TileStatement& s = node.statement;
    const TileRef& target = s.targets[0];
    if (!scopes_.symbols[static_cast<size_t>(target.symbol)].staged) continue;
    std::vector<TileVarId> vars;
    for (const IndexExpr& e : target.indices) {
      const TileVarId v = axis_of(program_, e);
      if (v >= 0) vars.push_back(v);
    }
    StagedLoad load;
    load.statement = &s;
    load.box = make_box(vars, resolved_place(s));
    prefetched_.insert(&s);
    out.push_back(std::move(load));
  }
  return out;
}

Lowering::StagedTrips Lowering::staged_trips(const TileLoop::Dim& d) {
  const auto range = [this](int id) { return range_of_var(id); };
  StagedTrips out;
  out.begin = simplify(bind(d.begin), range);
  const IndexExpr length = simplify(bind(d.end) - bind(d.begin), range);
  const Interval reach = range_of(length, range);
  out.count = (std::max<int64_t>(reach.hi, 0) + d.step - 1) / d.step;
  if (length.is_const()) {
    if (length.constant() % d.step != 0) {
      out.extent = builder_.int_constant(length.constant());
      out.extent_divisor = length.constant();
    }
    return out;
  }
  out.extent = emit_index(max(length, IndexExpr(0)));
  const Reg up =
      builder_.apply(ScalarOp::kAdd, {out.extent, builder_.int_constant(d.step - 1)}, DType::kI64);
  out.reg = builder_.apply(ScalarOp::kDiv, {up, builder_.int_constant(d.step)}, DType::kI64);
  return out;
}

void Lowering::bind_staged(const TileLoop::Dim& d, const StagedTrips& trips, const IndexExpr& t) {
  bound_[static_cast<size_t>(d.origin)] = trips.begin + t * d.step;
  if (trips.extent == kNoReg || d.offset < 0) return;
  const Reg passed = emit_index(t * d.step);
  const Reg left = builder_.apply(ScalarOp::kSub, {trips.extent, passed}, DType::kI64);
  int64_t divisor = 1;
  while (d.step % (divisor * 2) == 0 && trips.extent_divisor % (divisor * 2) == 0) divisor *= 2;
  valid_[static_cast<size_t>(d.offset)] = Valid{0, left, divisor};
}

/// Whether there is an iteration t.
Reg Lowering::comes(const StagedTrips& trips, Reg t) {
  const Reg count = trips.reg == kNoReg ? builder_.int_constant(trips.count) : trips.reg;
  return builder_.apply(ScalarOp::kLt, {t, count}, DType::kBool);
}

void Lowering::set_stage(const std::vector<StagedLoad>& loads, Reg t) {
  for (const StagedLoad& load : loads) {
    const TileSymbolId symbol = load.statement->targets[0].symbol;
    const int64_t copies = scopes_.symbols[static_cast<size_t>(symbol)].copies;
    const Reg stage =
        builder_.apply(ScalarOp::kRem, {t, builder_.int_constant(copies)}, DType::kI64);
    stages_[symbol] = add_kernel_var(stage, {0, copies - 1});
  }
}

std::vector<Reg> Lowering::emit_staged_loop(const TileLoop& loop, std::vector<Reg> carries) {
  const TileLoop::Dim& d = loop.dims[0];
  const auto outer_bound = bound_[static_cast<size_t>(d.origin)];
  const auto outer_valid =
      d.offset >= 0 ? valid_[static_cast<size_t>(d.offset)] : std::optional<Valid>{};
  const StagedTrips trips = staged_trips(d);
  std::vector<StagedLoad> loads = staged_loads(loop);
  bool copies = false;
  bind_staged(d, trips, add_kernel_var(builder_.int_constant(0), {0, trips.count}));
  set_stage(loads, builder_.int_constant(0));
  for (StagedLoad& load : loads) {
    load.async = can_copy_async(*load.statement, load.box);
    copies |= load.async;
    if (load.async) continue;
    rotating_.insert(buffer_of_[static_cast<size_t>(load.statement->targets[0].symbol)]);
  }
  // A rotating buffer may still be read by the loop's last run.
  if (!rotating_.empty() && repetitions_ > 1) builder_.barrier(KernelBarrier::kBlock);
  for (int64_t s = 0; copies && s + 1 < loop.stages; ++s) {
    issue_copies(loop, trips, loads, builder_.int_constant(s));
  }
  load_ahead(loop, trips, loads, builder_.int_constant(0));
  const size_t carried = carries.size();
  for (const StagedLoad& load : loads) {
    carries.insert(carries.end(), load.values.begin(), load.values.end());
  }
  const Reg end = trips.reg == kNoReg ? builder_.int_constant(trips.count) : trips.reg;
  std::vector<Reg> last = builder_.for_loop(
      builder_.int_constant(0), end, 1, std::move(carries), [&](Reg t, const std::vector<Reg>& in) {
        return emit_staged_iteration(loop, trips, t, loads, in);
      });
  last.resize(carried);
  bound_[static_cast<size_t>(d.origin)] = outer_bound;
  if (d.offset >= 0) valid_[static_cast<size_t>(d.offset)] = outer_valid;
  return last;
}

std::vector<Reg> Lowering::emit_staged_iteration(const TileLoop& loop, const StagedTrips& trips,
                                                 Reg t, std::vector<StagedLoad>& loads,
                                                 std::vector<Reg> state) {
  const TileLoop::Dim& d = loop.dims[0];
  size_t next = state.size();
  for (size_t i = loads.size(); i-- > 0;) {
    next -= loads[i].values.size();
    std::copy_n(state.begin() + static_cast<ptrdiff_t>(next), loads[i].values.size(),
                loads[i].values.begin());
  }
  state.resize(next);
  const auto plus = [&](int64_t n) {
    return builder_.apply(ScalarOp::kAdd, {t, builder_.int_constant(n)}, DType::kI64);
  };
  const IndexExpr now = add_kernel_var(t, {0, std::max<int64_t>(trips.count - 1, 0)});
  bind_staged(d, trips, now);
  set_stage(loads, t);
  bool copies = false, registers = false;
  for (const StagedLoad& load : loads) {
    (load.async ? copies : registers) = true;
    if (!load.async) store_staged(load);
  }
  if (copies) builder_.wait_async(static_cast<int32_t>(loop.stages - 2));
  builder_.barrier(KernelBarrier::kBlock);
  if (copies) issue_copies(loop, trips, loads, plus(loop.stages - 1));
  if (registers) load_ahead(loop, trips, loads, plus(1));
  bind_staged(d, trips, now);
  set_stage(loads, t);
  std::vector<Reg> out = emit_seq_dim(loop, loop.dims.size(), std::move(state));
  for (const StagedLoad& load : loads) {
    out.insert(out.end(), load.values.begin(), load.values.end());
  }
  return out;
}

/// The copies of iteration t, if there is one, as one group.
void Lowering::issue_copies(const TileLoop& loop, const StagedTrips& trips,
                            const std::vector<StagedLoad>& loads, Reg t) {
  builder_.if_then_else(comes(trips, t), [&] {
    bind_staged(loop.dims[0], trips, add_kernel_var(t, {0, trips.count}));
    set_stage(loads, t);
    for (const StagedLoad& load : loads) {
      if (load.async) copy_async(load);
    }
    return std::vector<Reg>{};
  });
  builder_.commit_async();
}

/// What iteration t stores, if there is one, into registers.
void Lowering::load_ahead(const TileLoop& loop, const StagedTrips& trips,
                          std::vector<StagedLoad>& loads, Reg t) {
  const auto values = [&](bool there) {
    std::vector<Reg> out;
    for (const StagedLoad& load : loads) {
      if (load.async) continue;
      const TileStatement& s = *load.statement;
      const DType type = program_.symbols[static_cast<size_t>(s.targets[0].symbol)].type;
      begin_evaluation(load.box);
      for_each_point(load.box, [&](int64_t, const Point& point) {
        FillMask mask;
        if (there) mask = fill_mask(load.box, point);
        mask.empty |= !there || mask.outside;
        const Reg value = filled_value(s, point, mask);
        out.push_back(to_lanes(value, load.box.lanes));
        WEFT_CHECK(builder_.type(value).dtype == type, "a staged load of another type");
      });
    }
    return out;
  };
  const std::vector<Reg> all = builder_.if_then_else(
      comes(trips, t),
      [&] {
        bind_staged(loop.dims[0], trips, add_kernel_var(t, {0, trips.count}));
        return values(true);
      },
      [&] { return values(false); });
  size_t next = 0;
  for (StagedLoad& load : loads) {
    if (load.async) continue;
    const auto count = static_cast<size_t>(load.box.points());
    load.values.assign(all.begin() + static_cast<ptrdiff_t>(next),
                       all.begin() + static_cast<ptrdiff_t>(next + count));
    next += count;
  }
}

void Lowering::store_staged(const StagedLoad& load) {
  const TileRef& target = load.statement->targets[0];
  begin_evaluation(load.box);
  const PreparedIndex offset = prepare(buffer_offset(target.symbol, target.indices));
  for_each_point(load.box, [&](int64_t number, const Point& point) {
    const FillMask mask = fill_mask(load.box, point);
    if (mask.outside) return;
    store_element(target, offset, load.box, point, load.values[static_cast<size_t>(number)],
                  store_mask(mask.tile, load.box));
  });
}

void Lowering::copy_async(const StagedLoad& load) {
  const TileRef& target = load.statement->targets[0];
  const Scalar& read = *load.statement->value;
  begin_evaluation(load.box);
  const PreparedIndex to = prepare(buffer_offset(target.symbol, target.indices));
  const auto symbol = static_cast<TileSymbolId>(read.symbol);
  const PreparedIndex from = prepare(buffer_offset(symbol, read.indices));
  for_each_point(load.box, [&](int64_t, const Point& point) {
    const FillMask mask = fill_mask(load.box, point);
    if (mask.outside) return;
    const auto source = affine_at_point(from, point), place = affine_at_point(to, point);
    const Reg valid =
        mask.empty ? builder_.constant({DType::kBool, 1}, int_value(DType::kBool, 0)) : mask.valid;
    builder_.copy_async(buffer_of_[static_cast<size_t>(target.symbol)],
                        swizzled(target.symbol, *place), buffer_of_[static_cast<size_t>(symbol)],
                        emit_terms(source->terms, source->constant), box_.lanes, valid);
  });
}

/// A plain read of 4, 8 or 16 bytes at multiples of them, all valid or none.
bool Lowering::can_copy_async(const TileStatement& s, const Box& box) {
  const TileRef& target = s.targets[0];
  const Scalar& read = *s.value;
  if (read.kind != Scalar::Kind::kRead || !read.operands.empty() || read.fill ||
      read.type != program_.symbols[static_cast<size_t>(target.symbol)].type ||
      !box.copies.empty()) {
    return false;
  }
  const int64_t bytes = box.lanes * byte_size(read.type);
  if (bytes != 4 && bytes != 8 && bytes != 16) return false;
  begin_evaluation(box);
  const PreparedIndex to = prepare(buffer_offset(target.symbol, target.indices));
  const PreparedIndex from =
      prepare(buffer_offset(static_cast<TileSymbolId>(read.symbol), read.indices));
  bool fits = true;
  for_each_point(box, [&](int64_t, const Point& point) {
    for (const PreparedIndex* index : {&to, &from}) {
      const auto at = affine_at_point(*index, point);
      if (!at || (box.lanes > 1 && at->lane_coefficient != 1)) {
        fits = false;
        continue;
      }
      int64_t divisor = std::gcd(at->constant, box.lanes);
      for (const auto& [id, c] : at->terms) divisor = std::gcd(divisor, c);
      fits &= divisor == box.lanes;
    }
    const FillMask mask = fill_mask(box, point);
    fits &= mask.tile == kNoReg && (mask.valid == kNoReg || builder_.type(mask.valid).lanes == 1);
  });
  return fits;
}

Lowering::FillMask Lowering::fill_mask(const Box& box, const Point& point) {
  FillMask out;
  out.valid = lane_mask_of(box, point, &out.empty);
  std::vector<std::optional<Valid>> tails;
  for (const Box::Axis& axis : box.axes) {
    tails.push_back(std::exchange(valid_[static_cast<size_t>(axis.var)], std::nullopt));
  }
  out.tile = lane_mask_of(box, point, &out.outside);
  for (size_t a = 0; a < tails.size(); ++a) {
    valid_[static_cast<size_t>(box.axes[a].var)] = tails[a];
  }
  statement_mask_ = out.valid;  // under which the value is made
  return out;
}

Reg Lowering::filled_value(const TileStatement& s, const Point& point, const FillMask& mask) {
  const DType type = program_.symbols[static_cast<size_t>(s.targets[0].symbol)].type;
  const auto zero = [&](int32_t lanes) {
    return builder_.constant({type, lanes},
                             is_float(type) ? float_value(type, 0) : int_value(type, 0));
  };
  if (mask.empty) return zero(1);
  Reg value = evaluate(s.value, point, mask.valid);
  if (builder_.type(value).dtype != type) {
    value = builder_.apply(ScalarOp::kConvert, {value}, type);
  }
  // What is only loaded is zero already.
  const bool loaded = s.value->kind == Scalar::Kind::kRead && !s.value->fill;
  if (mask.valid == kNoReg || loaded) return value;
  const int32_t lanes = std::max(builder_.type(value).lanes, builder_.type(mask.valid).lanes);
  return builder_.apply(ScalarOp::kSelect,
                        {to_lanes(mask.valid, lanes), to_lanes(value, lanes), zero(lanes)}, type);
}

}  // namespace weft::lowering

#include "lower/gpu/staged_loops.h"

#include "tile/places.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>

#include "index/index_units.h"
#include "lower/core/buffers.h"
#include "lower/core/expressions.h"
#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"
#include "lower/core/loops.h"
#include "lower/core/statements.h"
#include "lower/gpu/filled_rows.h"
#include "lower/gpu/matrix_units.h"
#include "tile/analysis/loads_ahead.h"
#include "tile/padded_read.h"

/// Loops whose block memory is filled ahead of its iterations. With n stages:
///     copy 0; commit; … copy n-2; commit; registers = load 0
///     for t { store registers; wait n-2; barrier; copy t+n-1; commit; registers = load t+1; body t
///     }
/// Copies go behind the threads' back, zeros where they are padded; what must be computed on the
/// way, or is not aligned to 4 bytes, passes through registers one iteration ahead.
namespace weft::lowering {

namespace {

/// One staged load: its box, and whether it needs no registers on the way.
struct StagedLoad {
  const TileStatement* statement = nullptr;
  Box box;
  bool async = false;
  std::vector<Reg> values;  ///< not async: of the iteration to come, by point
};

/// The iterations of a loop of several stages.
struct StagedTrips {
  /// Iterations that copies are ahead: one less where a warp group still reads the stage before.
  int64_t ahead = 1;
  IndexExpr begin = 0;
  int64_t count = 0;    ///< at most, where `reg` is not kNoReg
  Reg reg = kNoReg;     ///< known at run time only
  Reg extent = kNoReg;  ///< of a tail: what the loop runs over, in elements
  int64_t extent_divisor = 1;
};

std::vector<StagedLoad> staged_loads(GpuWriter& w, const TileLoop& loop) {
  std::vector<StagedLoad> out;
  for (const TileNode& node : loop.body) {
    if (node.kind != TileNode::Kind::kStatement) continue;
    const TileStatement& s = node.statement;
    const TileRef& target = s.targets[0];
    if (!w.scopes.symbols[static_cast<size_t>(target.symbol)].staged) continue;
    std::vector<TileVarId> vars;
    for (const IndexExpr& e : target.indices) {
      const TileVarId v = axis_of(w.program, e);
      if (v >= 0) vars.push_back(v);
    }
    StagedLoad load;
    load.statement = &s;
    load.box = w.make_box(vars, w.place_of(s));
    w.bindings.made_ahead.insert(&s);
    out.push_back(std::move(load));
  }
  return out;
}

StagedTrips staged_trips(GpuWriter& w, const TileLoop::Dim& d) {
  const auto range = [&](int id) { return range_of_var(w, id); };
  StagedTrips out;
  out.begin = simplify(bind(w, d.begin), range);
  const IndexExpr length = simplify(bind(w, d.end) - bind(w, d.begin), range);
  const Interval reach = range_of(length, range);
  out.count = (std::max<int64_t>(reach.hi, 0) + d.step - 1) / d.step;
  if (length.is_const()) {
    if (length.constant() % d.step != 0) {
      out.extent = w.builder.int_constant(length.constant());
      out.extent_divisor = length.constant();
    }
    return out;
  }
  out.extent = emit_index(w, max(length, IndexExpr(0)));
  const Reg up = w.builder.apply(ScalarOp::kAdd, {out.extent, w.builder.int_constant(d.step - 1)},
                                 DType::kI64);
  out.reg = w.builder.apply(ScalarOp::kDiv, {up, w.builder.int_constant(d.step)}, DType::kI64);
  return out;
}

void bind_staged(GpuWriter& w, const TileLoop::Dim& d, const StagedTrips& trips,
                 const IndexExpr& t) {
  w.bindings.bound[static_cast<size_t>(d.origin)] = trips.begin + t * d.step;
  if (trips.extent == kNoReg || d.offset < 0) return;
  const Reg passed = emit_index(w, t * d.step);
  const Reg left = w.builder.apply(ScalarOp::kSub, {trips.extent, passed}, DType::kI64);
  int64_t divisor = 1;
  while (d.step % (divisor * 2) == 0 && trips.extent_divisor % (divisor * 2) == 0) divisor *= 2;
  w.bindings.valid[static_cast<size_t>(d.offset)] = Valid{0, left, divisor};
}

/// Whether there is an iteration t.
Reg comes(GpuWriter& w, const StagedTrips& trips, Reg t) {
  const Reg count = trips.reg == kNoReg ? w.builder.int_constant(trips.count) : trips.reg;
  return w.builder.apply(ScalarOp::kLt, {t, count}, DType::kBool);
}

void set_stage(GpuWriter& w, const std::vector<StagedLoad>& loads, Reg t) {
  for (const StagedLoad& load : loads) {
    const TileSymbolId symbol = load.statement->targets[0].symbol;
    const int64_t copies = w.scopes.symbols[static_cast<size_t>(symbol)].copies;
    const Reg stage =
        w.builder.apply(ScalarOp::kRem, {t, w.builder.int_constant(copies)}, DType::kI64);
    w.memory.stages[symbol] = add_kernel_var(w, stage, {0, copies - 1});
  }
}

/// Where the elements of a copy lie at a point.
struct CopySource {
  std::optional<PointOffset> affine;
  IndexExpr first;  ///< else that of the first lane
  int64_t lane_step = 0;
  int64_t unit = 0;  ///< of what the first element is a multiple
};

std::optional<CopySource> source_at(GpuWriter& w, const PreparedIndex& from, const Point& point) {
  CopySource out;
  out.affine = affine_at_point(w, from, point);
  if (out.affine) {
    out.lane_step = out.affine->lane_coefficient;
    out.unit = std::abs(out.affine->constant);
    for (const auto& [id, c] : out.affine->terms) out.unit = std::gcd(out.unit, c);
    return out;
  }
  const IndexExpr e =
      simplify(at_point(w, from, point), [&](int id) { return range_of_var(w, id); });
  const auto step = lane_step(e, &out.first);
  if (!step) return std::nullopt;
  out.lane_step = *step;
  out.unit = unit_of(out.first, [](int) { return int64_t{1}; });
  return out;
}

Reg emit_source(GpuWriter& w, const CopySource& source) {
  return source.affine ? emit_terms(w, source.affine->terms, source.affine->constant)
                       : emit_index(w, source.first);
}

/// What lets a copy through: the mask of its tile, and what pads it.
Reg copy_guard(GpuWriter& w, const PaddedRead& padded, const Point& point, Reg mask) {
  if (padded.condition == nullptr) return mask;
  return combine_guards(w, mask, evaluate(w, padded.condition, point, kNoReg));
}

void copy_async(GpuWriter& w, const StagedLoad& load) {
  const TileRef& target = load.statement->targets[0];
  const PaddedRead padded = *padded_read(load.statement->value);
  begin_evaluation(w, load.box);
  const PreparedIndex to = prepare(w, buffer_offset(w, target.symbol, target.indices));
  const auto symbol = static_cast<TileSymbolId>(padded.read->symbol);
  const PreparedIndex from = prepare(w, buffer_offset(w, symbol, padded.read->indices));
  for_each_point(load.box, [&](int64_t, const Point& point) {
    const FillMask mask = fill_mask(w, load.box, point);
    if (mask.outside) return;
    const auto source = source_at(w, from, point);
    const auto place = affine_at_point(w, to, point);
    // Outside of what only some threads do: other points find parts of it made.
    const Reg valid = mask.empty ? w.builder.constant({DType::kBool, 1}, int_value(DType::kBool, 0))
                                 : copy_guard(w, padded, point, mask.valid);
    const auto copy = [&] {
      w.builder.copy_async(w.memory.buffer_of[static_cast<size_t>(target.symbol)],
                           swizzled(w, target.symbol, *place),
                           w.memory.buffer_of[static_cast<size_t>(symbol)], emit_source(w, *source),
                           w.at_hand.box.lanes, valid);
      return std::vector<Reg>{};
    };
    // Threads beyond those that hold the tile copy nothing.
    const Reg holds = store_mask(w, mask.tile, load.box);
    if (holds == kNoReg) {
      copy();
    } else {
      w.builder.if_then_else(holds, copy);
    }
  });
}

/// Of the first iterations, what went ahead of the barrier before the nest: a block's later items
/// copy it here.
void copy_unless_ahead(GpuWriter& w, const StagedLoad& load) {
  if (w.went_ahead.count(load.statement) == 0) return copy_async(w, load);
  if (w.later_item == kNoReg) return;
  w.builder.if_then_else(w.later_item, [&] {
    copy_async(w, load);
    return std::vector<Reg>{};
  });
}

/// The copies of iteration t, if there is one. `begins`: it is one of the first.
void copy_iteration(GpuWriter& w, const TileLoop& loop, const StagedTrips& trips,
                    const std::vector<StagedLoad>& loads, Reg t, bool begins) {
  w.builder.if_then_else(comes(w, trips, t), [&] {
    bind_staged(w, loop.dims[0], trips, add_kernel_var(w, t, {0, trips.count}));
    set_stage(w, loads, t);
    for (const StagedLoad& load : loads) {
      if (!load.async) continue;
      begins ? copy_unless_ahead(w, load) : copy_async(w, load);
    }
    return std::vector<Reg>{};
  });
}

/// The same as one group.
void issue_copies(GpuWriter& w, const TileLoop& loop, const StagedTrips& trips,
                  const std::vector<StagedLoad>& loads, Reg t, bool begins) {
  copy_iteration(w, loop, trips, loads, t, begins);
  w.builder.commit_async();
}

/// What iteration t stores, if there is one, into registers.
void load_ahead(GpuWriter& w, const TileLoop& loop, const StagedTrips& trips,
                std::vector<StagedLoad>& loads, Reg t) {
  const auto values = [&](bool there) {
    std::vector<Reg> out;
    for (const StagedLoad& load : loads) {
      if (load.async) continue;
      const TileStatement& s = *load.statement;
      const DType type = w.program.symbols[static_cast<size_t>(s.targets[0].symbol)].type;
      begin_evaluation(w, load.box);
      for_each_point(load.box, [&](int64_t, const Point& point) {
        FillMask mask;
        if (there) {
          mask = fill_mask(w, load.box, point);
          // Threads beyond those that hold the tile ask for nothing.
          mask.valid = store_mask(w, mask.valid, load.box);
        }
        mask.empty |= !there || mask.outside;
        const Reg value = filled_value(w, s, point, mask);
        out.push_back(to_lanes(w, value, load.box.lanes));
        WEFT_CHECK(w.builder.type(value).dtype == type, "a staged load of another type");
      });
    }
    return out;
  };
  const std::vector<Reg> all = w.builder.if_then_else(
      comes(w, trips, t),
      [&] {
        bind_staged(w, loop.dims[0], trips, add_kernel_var(w, t, {0, trips.count}));
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

void store_staged(GpuWriter& w, const StagedLoad& load) {
  const TileRef& target = load.statement->targets[0];
  begin_evaluation(w, load.box);
  const PreparedIndex offset = prepare(w, buffer_offset(w, target.symbol, target.indices));
  for_each_point(load.box, [&](int64_t number, const Point& point) {
    const FillMask mask = fill_mask(w, load.box, point);
    if (mask.outside) return;
    store_element(w, target, offset, load.box, point, load.values[static_cast<size_t>(number)],
                  store_mask(w, mask.tile, load.box));
  });
}

std::vector<Reg> emit_staged_iteration(GpuWriter& w, const TileLoop& loop, const StagedTrips& trips,
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
    return w.builder.apply(ScalarOp::kAdd, {t, w.builder.int_constant(n)}, DType::kI64);
  };
  const IndexExpr now = add_kernel_var(w, t, {0, std::max<int64_t>(trips.count - 1, 0)});
  bind_staged(w, d, trips, now);
  set_stage(w, loads, t);
  bool copies = false, registers = false;
  for (const StagedLoad& load : loads) {
    (load.async ? copies : registers) = true;
    if (!load.async) store_staged(w, load);
  }
  if (copies) w.builder.wait_async(static_cast<int32_t>(trips.ahead - 1));
  w.builder.barrier(KernelBarrier::kBlock);
  if (copies && trips.count > 1) issue_copies(w, loop, trips, loads, plus(trips.ahead), false);
  if (registers) load_ahead(w, loop, trips, loads, plus(1));
  bind_staged(w, d, trips, now);
  set_stage(w, loads, t);
  std::vector<Reg> out = emit_seq_dim(w, loop, loop.dims.size(), std::move(state));
  for (const StagedLoad& load : loads) {
    out.insert(out.end(), load.values.begin(), load.values.end());
  }
  return out;
}

/// A read of 4, 8 or 16 bytes at multiples of them, plain or padded, all valid or none.
bool can_copy_async(GpuWriter& w, const TileStatement& s, const Box& box) {
  const TileRef& target = s.targets[0];
  const auto padded = padded_read(s.value);
  if (!padded) return false;
  const Scalar& read = *padded->read;
  if (read.type != w.program.symbols[static_cast<size_t>(target.symbol)].type) return false;
  const int64_t bytes = box.lanes * byte_size(read.type);
  if (bytes != 4 && bytes != 8 && bytes != 16) return false;
  begin_evaluation(w, box);
  const PreparedIndex to = prepare(w, buffer_offset(w, target.symbol, target.indices));
  const PreparedIndex from =
      prepare(w, buffer_offset(w, static_cast<TileSymbolId>(read.symbol), read.indices));
  bool fits = true;
  for_each_point(box, [&](int64_t, const Point& point) {
    fits &= affine_at_point(w, to, point).has_value();
    for (const PreparedIndex* index : {&to, &from}) {
      const auto at = source_at(w, *index, point);
      fits &= at && (box.lanes == 1 || at->lane_step == 1) && at->unit % box.lanes == 0;
    }
    const FillMask mask = fill_mask(w, box, point);
    for (const Reg each : {mask.tile, copy_guard(w, *padded, point, mask.valid)})
      fits &= each == kNoReg || w.builder.type(each).lanes == 1;
  });
  return fits;
}

/// Whether an iteration may leave its product to a warp group while the next one begins: all that
/// the loop does is to copy, and to multiply what was copied into what it carries.
bool multiplies_under_way(const GpuWriter& w, const TileLoop& loop,
                          const std::vector<StagedLoad>& loads) {
  const size_t count = loads.size();
  const bool all = std::ranges::all_of(loads, &StagedLoad::async);
  if (!all || loop.stages < kStagesUnderWay || loop.body.size() != count + 2) return false;
  const TileNode &product = loop.body[count], &sum = loop.body[count + 1];
  if (product.kind != TileNode::Kind::kStatement) return false;
  const auto unit = unit_product(w.program, product.statement);
  return unit && unit->by_group && accumulates(w, product, sum) >= 0 && loop.carries.size() == 1 &&
         w.went_ahead.empty();
}

}  // namespace

bool is_staged(const GpuWriter& w, const TileLoop& loop) {
  if (loop.stages < 2 || loop.dims.size() != 1) return false;
  return std::any_of(loop.body.begin(), loop.body.end(), [&](const TileNode& node) {
    return node.kind == TileNode::Kind::kStatement &&
           w.scopes.symbols[static_cast<size_t>(node.statement.targets[0].symbol)].staged;
  });
}

void copy_ahead(GpuWriter& w, const TileLoop& loop) {
  const TileLoop::Dim& d = loop.dims[0];
  const StagedTrips trips = staged_trips(w, d);
  std::vector<StagedLoad> loads = staged_loads(w, loop);
  bind_staged(w, d, trips, add_kernel_var(w, w.builder.int_constant(0), {0, trips.count}));
  set_stage(w, loads, w.builder.int_constant(0));
  for (StagedLoad& load : loads) {
    load.async = is_loaded_ahead(w.program, loop, *load.statement) &&
                 can_copy_async(w, *load.statement, load.box);
  }
  const auto behind = std::ranges::remove(loads, false, &StagedLoad::async);
  loads.erase(behind.begin(), behind.end());
  for (int64_t s = 0; !loads.empty() && s + 1 < loop.stages; ++s)
    copy_iteration(w, loop, trips, loads, w.builder.int_constant(s), false);
  for (const StagedLoad& load : loads) w.went_ahead.insert(load.statement);
  w.bindings.bound[static_cast<size_t>(d.origin)].reset();
  if (d.offset >= 0) w.bindings.valid[static_cast<size_t>(d.offset)].reset();
}

std::vector<Reg> emit_staged_loop(GpuWriter& w, const TileLoop& loop, std::vector<Reg> carries) {
  const TileLoop::Dim& d = loop.dims[0];
  const auto outer_bound = w.bindings.bound[static_cast<size_t>(d.origin)];
  const auto outer_valid =
      d.offset >= 0 ? w.bindings.valid[static_cast<size_t>(d.offset)] : std::optional<Valid>{};
  StagedTrips trips = staged_trips(w, d);
  std::vector<StagedLoad> loads = staged_loads(w, loop);
  bool copies = false;
  bind_staged(w, d, trips, add_kernel_var(w, w.builder.int_constant(0), {0, trips.count}));
  set_stage(w, loads, w.builder.int_constant(0));
  for (StagedLoad& load : loads) {
    load.async = can_copy_async(w, *load.statement, load.box);
    copies |= load.async;
    if (load.async) continue;
    w.memory.rotating.insert(
        w.memory.buffer_of[static_cast<size_t>(load.statement->targets[0].symbol)]);
  }
  // A rotating buffer may still be read by the loop's last run.
  if (!w.memory.rotating.empty() && w.bindings.repetitions > 1)
    w.builder.barrier(KernelBarrier::kBlock);
  const bool under_way = multiplies_under_way(w, loop, loads);
  trips.ahead = loop.stages - (under_way ? 2 : 1);
  for (int64_t s = 0; copies && s < trips.ahead; ++s) {
    issue_copies(w, loop, trips, loads, w.builder.int_constant(s), true);
  }
  load_ahead(w, loop, trips, loads, w.builder.int_constant(0));
  const size_t carried = carries.size();
  for (const StagedLoad& load : loads) {
    carries.insert(carries.end(), load.values.begin(), load.values.end());
  }
  const bool around = std::exchange(w.multiplies_under_way, under_way);
  const Reg end = trips.reg == kNoReg ? w.builder.int_constant(trips.count) : trips.reg;
  std::vector<Reg> last =
      w.builder.for_loop(w.builder.int_constant(0), end, 1, std::move(carries),
                         [&](Reg t, const std::vector<Reg>& in) {
                           return emit_staged_iteration(w, loop, trips, t, loads, in);
                         });
  last.resize(carried);
  w.multiplies_under_way = around;
  if (under_way) last = w.builder.group_wait(std::move(last));
  w.bindings.bound[static_cast<size_t>(d.origin)] = outer_bound;
  if (d.offset >= 0) w.bindings.valid[static_cast<size_t>(d.offset)] = outer_valid;
  return last;
}

}  // namespace weft::lowering

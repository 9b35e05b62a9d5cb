#include "schedule/gpu/thread_stitch.h"

#include <algorithm>
#include <functional>
#include <ranges>

#include "expr/analysis/dependence.h"
#include "group/join_moments.h"
#include "schedule/gpu/requested_bytes.h"
#include "schedule/gpu/thread_stitch_builder.h"
#include "schedule/writer/statements.h"
#include "tile/rewrite/keep_loads.h"
#include "tile/rewrite/share_loads.h"

namespace weft {

/// The loop over blocks and their parts of rows, to whose indices the axes are bound from here on.
TileLoop ThreadStitch::over_grid() {
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  for (const int a : layout_.free) {
    const int64_t step = std::max<int64_t>(digits_extent(digits_of(a)), 1);
    if (is_at_once(a)) {
      bind_axis(a);
      continue;
    }
    grid.dims.push_back(b_.loop_dim(a, step));
    if (step > 1) var_[a] = grid.dims.back().offset;
  }
  if (layout_.split >= 0) {
    split_ = b_.loop_dim(layout_.split, layout_.part);
    if (!layout_.cluster) grid.dims.push_back(split_);
  }
  if (layout_.resident) bind_row();
  return grid;
}

ScheduledKernel ThreadStitch::build() {
  TileLoop grid = over_grid();
  const int64_t items = boxes_of(layout_, axes_);
  if (!layout_.resident) stand_in_for_row();
  TileProgram& program = b_.program();
  if (layout_.apart) {
    program.body = nests(std::move(grid));
  } else {
    TileBody tail;
    grid.body = body(&tail);
    if (layout_.cluster) share_by_cluster(&grid);
    program.body = layout_.cluster ? b_.in_grid(std::move(grid)) : b_.one_nest(std::move(grid));
    for (TileNode& node : tail) program.body.push_back(std::move(node));
  }
  program.cpu = false;
  program.blocks = layout_.blocks > 0 ? layout_.blocks : items;
  program.warps = layout_.warps;
  program.per_sm = layout_.per_sm;
  if (layout_.keeps) keep_loads(program, static_cast<size_t>(layout_.kept_dims), layout_.together);
  share_loads(program);
  ScheduledKernel out = b_.take();
  out.schedule_template = layout_.cross >= 0         ? "tiles across"
                          : axes_.reductions.empty() ? "elementwise"
                          : layout_.resident         ? "rows in registers"
                                                     : "rows in sweeps";
  if (layout_.together > 1) out.schedule_template += ", what they share by clusters";
  if (layout_.split >= 0) {
    out.schedule_template += layout_.cluster ? " over a cluster" : " over blocks";
  }
  return out;
}

/// A row in registers has one variable for each of its axes; a part of one has its loop's.
void ThreadStitch::bind_row() {
  for (const int a : layout_.row) {
    if (a == layout_.split) {
      var_[a] = split_.offset;
      continue;
    }
    bind_axis(a);
  }
}

void ThreadStitch::bind_axis(int a) {
  var_[a] =
      b_.program().add_var(b_.unique("j" + std::to_string(a)), TileVar::Kind::kAxis, extent(a));
  b_.bind(a, b_.begin_of(a) + IndexExpr::var(var_[a]));
}

/// Of a stage's axis: whether the threads of a block have all that any block has of it, so that no
/// loop goes along it.
bool ThreadStitch::is_at_once(int a) const {
  if (!space_.frame() || digits_extent(digits_of(a)) < extent(a)) return false;
  return simplify(b_.end_of(a) - b_.begin_of(a), ranges_of(b_.program())).is_const(extent(a));
}

/// A cluster goes through the parts of one iteration of the grid.
void ThreadStitch::share_by_cluster(TileLoop* grid) const {
  TileLoop cluster;
  cluster.kind = TileLoop::Kind::kCluster;
  cluster.dims.push_back(split_);
  cluster.body = std::move(grid->body);
  grid->body.clear();
  grid->body.push_back(TileNode::of(std::move(cluster)));
}

/// What follows the last of a row split over the grid is a nest of its own, behind a barrier: its
/// results are few, and other threads have them than had the row.
TileBody ThreadStitch::body(TileBody* tail) {
  TileBody out;
  TileLoop nest;
  TileBody* at = &out;
  for (int level = 0; level < axes_.levels; ++level) {
    emit_scalars(level, at);
    std::vector<Partial> partials =
        layout_.resident ? emit_resident(level, at) : emit_sweep(level, at);
    if (layout_.split >= 0 && !layout_.cluster && at == &out && row_ends_with(level)) {
      for (Partial& r : partials) share_partial(&r, at);
      start_tail(&nest);
      at = &nest.body;
      combine_partials(partials, at);
    } else {
      finish_reductions(std::move(partials), at);
    }
  }
  if (at != &out) *tail = b_.one_nest(std::move(nest));
  return out;
}

/// A nest for each level of reductions, and a barrier of the grid before it: no block keeps
/// anything across one, so that blocks may be any number, and the nests some of a larger launch. A
/// nest puts together what the blocks left of the levels before, and makes again what it needs.
TileBody ThreadStitch::nests(TileLoop first) {
  TileBody out;
  std::vector<std::vector<Partial>> partials;
  for (int level = 0; level <= axes_.levels; ++level) {
    if (level == axes_.levels && partials.back().empty()) break;
    TileLoop nest = level == 0 ? std::move(first) : over_grid();
    made_.clear();
    make_again(partials, level, &nest.body);
    if (level < axes_.levels) {
      emit_scalars(level, &nest.body);
      partials.push_back(layout_.resident ? emit_resident(level, &nest.body)
                                          : emit_sweep(level, &nest.body));
      for (Partial& r : partials.back()) share_partial(&r, &nest.body);
    }
    for (TileNode& node : b_.in_grid(std::move(nest))) out.push_back(std::move(node));
  }
  return out;
}

/// What the levels before made, results of reductions by their parts. Those of the last one are
/// stored here, where they are known first.
void ThreadStitch::make_again(const std::vector<std::vector<Partial>>& partials, int level,
                              TileBody* out) {
  const std::set<int> needed = layout_.resident ? needed_in(level) : std::set<int>();
  for (int before = 0; before < level; ++before) {
    stores_ = false;
    emit_scalars(before, out);
    for (const int p : needed) {
      if (axes_.level[static_cast<size_t>(p)] == before && !reduces(p)) emit_member(p, out);
    }
    stores_ = before == level - 1;
    combine_partials(partials[static_cast<size_t>(before)], out);
  }
  stores_ = true;
}

bool ThreadStitch::row_ends_with(int level) const {
  for (int p = 0; p < count_; ++p) {
    if (is_unused(p)) continue;
    const bool later = axes_.level[static_cast<size_t>(p)] > level;
    if (later && (reduces(p) || is_row_value(p))) return false;
    // What an earlier level made of other results would have to be made again.
    const bool scalar = !reduces(p) && !is_row_value(p);
    if (!later && scalar) return false;
    if (reduces(p) && axes_.level[static_cast<size_t>(p)] != level) return false;
  }
  return true;
}

/// A new nest over the axes that are left, laid out as an element a lane; the parts of a row are
/// on the lanes where they lie side by side, else on the warps.
void ThreadStitch::start_tail(TileLoop* nest) {
  nest->kind = TileLoop::Kind::kGrid;
  in_tail_ = true;
  ThreadTile tile(layout_.warps);
  digits_.clear();
  if (parts_last()) {
    for (const int a : layout_.row) digits_[a] = {};
    digits_[layout_.split] = tile.add(layout_.parts, 1, 32, 1, 0);
  } else {
    for (const int a : layout_.row) digits_[a] = {};
  }
  for (const int a : std::views::reverse(layout_.free)) {
    digits_[a] = tile.add(extent(a), 1, 32, parts_last() ? layout_.warps : 1, 1);
  }
  if (!parts_last()) {
    digits_[layout_.split] = tile.add(layout_.parts, 1, tile.lanes_left(), layout_.warps, 0);
  }
  behind_ = {
      {layout_.split, b_.program().add_var(b_.unique("t"), TileVar::Kind::kAxis, layout_.parts)}};
  var_.clear();
  for (const int a : layout_.free) {
    const int64_t step = std::max<int64_t>(digits_extent(digits_[a]), 1);
    nest->dims.push_back(b_.loop_dim(a, step));
    if (step > 1) var_[a] = nest->dims.back().offset;
  }
}

/// Coordinates of a member's result in the axes of the grid that the box has.
std::vector<IndexExpr> ThreadStitch::free_coordinates(int p) const {
  std::vector<IndexExpr> out;
  for (const int a : layout_.free) {
    if (var_.count(a) != 0 && space_.output_has_axis(p, a)) out.push_back(b_.index(a));
  }
  return out;
}

std::vector<IndexExpr> ThreadStitch::coordinates(int p) const {
  std::vector<IndexExpr> out = free_coordinates(p);
  if (reduces(p)) return out;
  for (const int a : layout_.row) {
    if (has_axis(axes_, p, a)) out.push_back(b_.index(a));
  }
  return out;
}

Place ThreadStitch::free_place() const {
  Place place;
  for (const int a : layout_.free) {
    const auto var = var_.find(a);
    if (var != var_.end() && !digits_of(a).empty()) {
      place.axes.push_back({var->second, digits_of(a)});
    }
  }
  return place;
}

/// The block's place. Threads hold copies of what lacks some of its axes; outside of a sweep, other
/// variables stand for those of the row.
Place ThreadStitch::full_place() const {
  Place place = free_place();
  for (const int a : layout_.row) {
    const auto bound = var_.find(a), behind = behind_.find(a);
    if (digits_of(a).empty()) continue;
    if (bound != var_.end()) {
      place.axes.push_back({bound->second, digits_of(a)});
    } else if (behind != behind_.end()) {
      place.axes.push_back({behind->second, digits_of(a)});
    }
  }
  return place;
}

/// One variable for each axis of a row, for what threads hold outside of sweeps.
void ThreadStitch::stand_in_for_row() {
  for (const int a : layout_.row) {
    const int64_t extent = digits_extent(digits_of(a));
    if (extent < 2) continue;
    behind_[a] = b_.program().add_var(b_.unique("jj"), TileVar::Kind::kAxis, extent);
  }
}

/// The parts of a row over the threads that had its elements, so that those of the other axes stay
/// where they are. Where a cluster has them and the lanes take them in few turns, each warp does:
/// it then knows the result, and none need exchange it. Of memory a block asks for each part once.
Place ThreadStitch::place_over_parts(TileVarId t) const {
  constexpr int64_t kFewTurns = 8;
  Place place = free_place();
  int64_t lanes = 1, warps = 1, free_warps = 1;
  for (const auto& [a, digits] : digits_) {
    for (const Place::Digit& d : digits) {
      const bool row = is_row_axis(a);
      if (d.level == PlaceLevel::kLane && row) lanes *= d.extent;
      if (d.level == PlaceLevel::kWarp) (row ? warps : free_warps) *= d.extent;
    }
  }
  if (layout_.cluster && free_warps == 1 && layout_.parts <= lanes * kFewTurns) warps = 1;
  const int64_t turns = (layout_.parts + lanes * warps - 1) / (lanes * warps);
  Place::Axis axis{t, {}};
  for (const Place::Digit d : {Place::Digit{PlaceLevel::kReg, turns},
                               {PlaceLevel::kWarp, warps},
                               {PlaceLevel::kLane, lanes}}) {
    if (d.extent > 1) axis.digits.push_back(d);
  }
  if (!axis.digits.empty()) place.axes.push_back(std::move(axis));
  return place;
}

ScalarRef ThreadStitch::read_local(int producer) const {
  return scalar_read(made_.at(producer), type_of(producer), coordinates(producer));
}

void ThreadStitch::emit_member(int p, TileBody* out) {
  const TileSymbolId symbol = add_value(p, "_v", type_of(p));
  ScalarRef value = translated(p);
  if (layout_.cross >= 0) value = turned(value, out);
  out->push_back(TileNode::of(assign(symbol, coordinates(p), std::move(value), full_place())));
  made_[p] = symbol;
}

/// Whether neighbours along the tile's other axis are neighbours in memory, and those along the
/// vectors are not.
bool ThreadStitch::lies_across(const Scalar& read) const {
  const TileSymbol& symbol = b_.program().symbols[static_cast<size_t>(read.symbol)];
  Shape shape;
  for (const IndexExpr& e : symbol.shape) shape.push_back(e.constant());
  AffineForm form;
  if (!as_affine(element_offset(symbol.layout, shape, read.indices, ranges_of(b_.program())),
                 &form)) {
    return false;
  }
  const int64_t along = form.coefficient(var_.at(layout_.vec_axis));
  return form.coefficient(var_.at(layout_.cross)) == 1 && along != 0 && along != 1;
}

/// The value with what lies across the vectors read from tiles in shared memory, which are filled
/// along memory.
ScalarRef ThreadStitch::turned(const ScalarRef& value, TileBody* out) {
  for (const ScalarRef& read : certain_reads(b_.program(), value)) {
    const auto same = [&](const auto& tile) { return equal(tile.first, read); };
    if (!lies_across(*read) || std::any_of(tiles_.begin(), tiles_.end(), same)) continue;
    std::vector<IndexExpr> at;
    for (const int a : {layout_.vec_axis, layout_.cross}) at.push_back(b_.index(a));
    Place place;
    for (const int a : {layout_.vec_axis, layout_.cross}) {
      place.axes.push_back({var_.at(a), layout_.cross_digits.at(a)});
    }
    const TileSymbolId tile = b_.add_value(
        b_.program().symbols[static_cast<size_t>(read->symbol)].name + "_t", read->type);
    TileStatement fill = assign(tile, at, read, std::move(place));
    fill.demand = Scope::kBlock;
    out->push_back(TileNode::of(std::move(fill)));
    tiles_.emplace_back(read, scalar_read(tile, read->type, at));
  }
  return rewrite(value, {}, [&](const ScalarRef& read) {
    const auto same = [&](const auto& tile) { return equal(tile.first, read); };
    const auto known = std::find_if(tiles_.begin(), tiles_.end(), same);
    return known != tiles_.end() ? known->second : read;
  });
}

/// What blocks that share a row all know is stored by the one that has its beginning.
void ThreadStitch::emit_store(int p, TileBody* out) {
  if (!stores_) return;
  const bool row = is_row_value(p);
  TileStatement store = b_.store(p, read_local(p), full_place());
  if (row || layout_.split < 0 || in_tail_) {
    out->push_back(TileNode::of(std::move(store)));
    return;
  }
  TileCondition first;
  first.condition = at_origin(split_.origin, 0);
  first.body.push_back(TileNode::of(std::move(store)));
  out->push_back(TileNode::of(std::move(first)));
}

void ThreadStitch::emit_scalars(int level, TileBody* out) {
  for (int p = 0; p < count_; ++p) {
    if (axes_.level[static_cast<size_t>(p)] != level || is_row_value(p) || reduces(p)) continue;
    if (is_unused(p)) continue;
    emit_member(p, out);
    if (is_output(p)) emit_store(p, out);
  }
}

std::vector<ThreadStitch::Partial> ThreadStitch::emit_resident(int level, TileBody* out) {
  std::vector<Partial> partials;
  // A nest has no more of the row than its results ask for: what they are made of it makes again.
  const std::set<int> needed = layout_.apart ? needed_in(level) : std::set<int>();
  for (int p = 0; p < count_; ++p) {
    if (axes_.level[static_cast<size_t>(p)] != level || is_unused(p)) continue;
    if (const CentralMoment* pair = joined_.with_second(p)) {
      partials.push_back(emit_moment(*pair, partials, out));
    } else if (reduces(p)) {
      partials.push_back(emit_reduction(p, out));
    } else if (is_row_value(p) && (!layout_.apart || needed.contains(p))) {
      emit_member(p, out);
      if (is_output(p)) emit_store(p, out);
    }
  }
  return partials;
}

/// The position of an element where it is the best one, else none.
ScalarRef ThreadStitch::position_where(int p, const ScalarRef& same) const {
  const TensorExpr& e = b_.expr(p);
  return scalar_apply(ScalarOp::kSelect, {same, position_along(p), no_position(e)}, DType::kI64);
}

/// The variables of a row's axes that a member reduces over.
std::vector<TileVarId> ThreadStitch::row_axes_of(int p) const {
  std::vector<TileVarId> out;
  for (const int a : layout_.row) {
    if (has_axis(axes_, p, a)) out.push_back(var_.at(a));
  }
  return out;
}

/// One statement over the whole row; two where a position is asked for: the best value, and the
/// first (or last) position that holds it. NaN is the best.
ThreadStitch::Partial ThreadStitch::emit_reduction(int p, TileBody* out) {
  const TensorExpr& e = b_.expr(p);
  const auto reduce = [&](const std::string& suffix, Combiner combiner, ScalarRef value) {
    const TileSymbolId symbol = add_value(p, suffix, value->type);
    out->push_back(TileNode::of(assign_reduced(symbol, free_coordinates(p), combiner,
                                               row_axes_of(p), std::move(value), full_place())));
    return symbol;
  };
  if (!keeps_position(e)) return {p, reduce("_r", e.combiner, contribution(p)), -1};
  const TileSymbolId best = reduce("_m", best_of(e), translated(p));
  const ScalarRef same = same_value(translated(p), read_result(p, best));
  return {p, best, reduce("_r", pick_of(e), position_where(p, same))};
}

/// What blocks leave of a row is combined by each of them behind one barrier.
void ThreadStitch::finish_reductions(std::vector<Partial> partials, TileBody* out) {
  if (layout_.split < 0) {
    for (const Partial& r : partials) {
      finish_reduction(r.member, r.position >= 0 ? r.position : r.total, out);
    }
    return;
  }
  for (Partial& r : partials) share_partial(&r, out);
  combine_partials(partials, out);
}

void ThreadStitch::combine_partials(const std::vector<Partial>& partials, TileBody* out) {
  std::map<int, TileSymbolId> totals;  // by member
  for (const Partial& r : partials) {
    const TensorExpr& e = b_.expr(r.member);
    const TileVarId t =
        in_tail_ ? behind_.at(layout_.split)
                 : b_.program().add_var(b_.unique("t"), TileVar::Kind::kAxis, layout_.parts);
    const auto read = [&](TileSymbolId symbol) {
      return scalar_read(symbol, b_.type_of(symbol), partial_indices(r.member, IndexExpr::var(t)));
    };
    const bool position = r.position >= 0;
    ScalarRef part = read(r.total);
    if (const CentralMoment* pair = joined_.with_second(r.member)) {
      const auto sum = std::ranges::find(partials, pair->sum, &Partial::member);
      const DType type = part->type;
      const ScalarRef mean = mean_of(pair->sum, read_result(pair->sum, totals.at(pair->sum)),
                                     scalar_constant(float_value(type, row_terms())));
      part = moment_of_part(terms_of_part(IndexExpr::var(t) * layout_.part, type), read(sum->total),
                            part, mean);
    }
    TileSymbolId total =
        combine_parts(r.member, "_g", position ? best_of(e) : e.combiner, t, part, out);
    totals[r.member] = total;
    if (position) {
      const ScalarRef where = scalar_apply(ScalarOp::kSelect,
                                           {same_value(read(r.total), read_result(r.member, total)),
                                            read(r.position), no_position(e)},
                                           DType::kI64);
      total = combine_parts(r.member, "_w", pick_of(e), t, where, out);
    }
    finish_reduction(r.member, total, out);
  }
}

std::vector<IndexExpr> ThreadStitch::partial_indices(int p, const IndexExpr& part) const {
  std::vector<IndexExpr> at;
  for (const int a : layout_.free) {
    if (space_.output_has_axis(p, a)) at.push_back(b_.index(a));
  }
  at.insert(parts_last() ? at.end() : at.begin(), part);
  return at;
}

/// A block's own results where the others find them: an element for each row and part.
void ThreadStitch::share_partial(Partial* partial, TileBody* out) {
  for (TileSymbolId* own : {&partial->total, &partial->position}) {
    if (*own < 0) continue;
    const TileSymbol symbol = b_.program().symbols[static_cast<size_t>(*own)];
    const TileSymbolId shared = b_.add_value(symbol.name + "_part", symbol.type);
    out->push_back(TileNode::of(assign(
        shared,
        partial_indices(partial->member, floor_div(IndexExpr::var(split_.origin), layout_.part)),
        read_result(partial->member, *own), full_place())));
    *own = shared;
  }
}

TileSymbolId ThreadStitch::combine_parts(int p, const std::string& suffix, Combiner combiner,
                                         TileVarId t, ScalarRef value, TileBody* out) {
  const TileSymbolId symbol = add_value(p, suffix, value->type);
  out->push_back(
      TileNode::of(assign_reduced(symbol, free_coordinates(p), combiner, {t}, std::move(value),
                                  in_tail_ ? full_place() : place_over_parts(t))));
  return symbol;
}

ScheduledKernel stitch_threads(const GroupSpace& space, const JoinedGroup& joined,
                               const RowsChoice& choice, const std::string& name) {
  return ThreadStitch(space, joined, choice, name).build();
}

}  // namespace weft

#include "schedule/thread_stitch.h"

#include <algorithm>
#include <functional>
#include <ranges>
#include <set>

#include "expr/dependence.h"
#include "schedule/best_positions.h"
#include "schedule/keep_loads.h"
#include "schedule/moment_sums.h"
#include "schedule/share_loads.h"
#include "schedule/thread_tile.h"
#include "schedule/tile_builder.h"

namespace weft {

namespace {

bool has_axis(const GroupAxes& axes, int position, int axis) {
  const auto& list = axes.axis_of[static_cast<size_t>(position)];
  return std::find(list.begin(), list.end(), axis) != list.end();
}

/// Whether a loop stands at `begin`.
ScalarRef at_origin(TileVarId origin, const IndexExpr& begin) {
  return scalar_apply(ScalarOp::kEq, {scalar_index(IndexExpr::var(origin)), scalar_index(begin)},
                      DType::kBool);
}

class ThreadStitch {
 public:
  ThreadStitch(const TensorProgram& program, const Group& group, const JoinedGroup& joined,
               const RowLayout& layout, const std::string& name)
      : program_(program),
        group_(group),
        joined_(joined),
        axes_(joined.axes),
        layout_(layout),
        b_(program, group, joined.axes, name),
        count_(static_cast<int>(group.exprs.size())),
        digits_(layout.digits) {}

  ScheduledKernel build() {
    TileLoop grid;
    grid.kind = TileLoop::Kind::kGrid;
    int64_t items = layout_.parts;
    for (const int a : layout_.free) {
      const int64_t step = std::max<int64_t>(digits_extent(digits_of(a)), 1);
      grid.dims.push_back(b_.loop_dim(a, step));
      items *= (extent(a) + step - 1) / step;
      if (step > 1) var_[a] = grid.dims.back().offset;
    }
    if (layout_.split >= 0) {
      split_ = b_.loop_dim(layout_.split, layout_.part);
      if (!layout_.cluster) grid.dims.push_back(split_);
    }
    layout_.resident ? bind_row() : stand_in_for_row();
    TileBody tail;
    grid.body = body(&tail);
    if (layout_.cluster) share_by_cluster(&grid);
    TileProgram& program = b_.program();
    program.body = layout_.cluster ? b_.in_grid(std::move(grid)) : b_.one_nest(std::move(grid));
    for (TileNode& node : tail) program.body.push_back(std::move(node));
    program.cpu = false;
    program.blocks = layout_.blocks > 0 ? layout_.blocks : items;
    program.warps = layout_.warps;
    program.per_sm = layout_.per_sm;
    if (layout_.keeps) keep_loads(program, layout_.kept_dims);
    share_loads(program);
    ScheduledKernel out;
    out.program = std::move(program);
    out.parameters = b_.take_parameters();
    out.schedule_template = layout_.cross >= 0         ? "tiles across"
                            : axes_.reductions.empty() ? "elementwise"
                            : layout_.resident         ? "rows in registers"
                                                       : "rows in sweeps";
    if (layout_.split >= 0) {
      out.schedule_template += layout_.cluster ? " over a cluster" : " over blocks";
    }
    out.layout_us = layout_.microseconds;
    return out;
  }

 private:
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  bool is_unused(int p) const { return joined_.unused.count(p) != 0; }
  bool reduces(int p) const { return !b_.expr(p).reduce_extents.empty(); }
  double row_terms() const {
    double terms = 1;
    for (const int a : layout_.row) terms *= static_cast<double>(extent(a));
    return terms;
  }
  /// Of the part of the split axis that begins there.
  IndexExpr length_of_part(const IndexExpr& begin) const {
    if (extent(layout_.split) % layout_.part == 0) return layout_.part;
    return min(begin + layout_.part, IndexExpr(extent(layout_.split))) - begin;
  }
  bool is_row_axis(int a) const {
    return std::find(layout_.row.begin(), layout_.row.end(), a) != layout_.row.end();
  }
  const std::vector<Place::Digit>& digits_of(int a) const { return digits_.at(a); }
  bool is_row_value(int p) const {
    const auto& own = axes_.axis_of[static_cast<size_t>(p)];
    return !reduces(p) &&
           std::any_of(own.begin(), own.end(), [&](int a) { return is_row_axis(a); });
  }
  bool is_output(int p) const {
    return std::find(group_.outputs.begin(), group_.outputs.end(), b_.expr(p).output) !=
           group_.outputs.end();
  }
  bool output_has(int p, int axis) const {
    const auto& own = axes_.axis_of[static_cast<size_t>(p)];
    const auto end = own.begin() + b_.expr(p).output_rank();
    return std::find(own.begin(), end, axis) != end;
  }

  /// What one reduction leaves in a block: the total of its part of the row, with a position its
  /// best value and where it stands.
  struct Partial {
    int member = -1;
    TileSymbolId total = -1, position = -1;
  };

  void share_by_cluster(TileLoop* grid) const;
  void bind_row();
  TileBody body(TileBody* tail);
  void start_tail(TileLoop* nest);
  bool row_ends_with(int level) const;
  std::set<int> needed_in(int level) const;
  void emit_scalars(int level, TileBody* out);
  std::vector<Partial> emit_resident(int level, TileBody* out);
  std::vector<Partial> emit_sweep(int level, TileBody* out);
  TileLoop row_loop();
  /// The carries of one reduction in a sweep: its value, with a position where it is; of a sum with
  /// a second moment the sum of differences from a shift, the shift, and the sum of their squares.
  struct Carried {
    int member = -1;
    TileSymbolId total = -1, position = -1, shift = -1, squares = -1;
  };
  Carried carry_reduction(int p, TileLoop* loop);
  Carried carry_moments(int p, TileLoop* loop);
  void finish_moments(const Carried& c, TileBody* out, std::vector<Partial>* partials);
  ScalarRef terms_of_slot(DType type) const;
  ScalarRef terms_of_part(const IndexExpr& begin, DType type) const;
  Partial emit_moment(const CentralMoment& pair, const std::vector<Partial>& made, TileBody* out);
  ScalarRef mean_of(int sum, const ScalarRef& total, const ScalarRef& terms) const {
    return scalar_apply(ScalarOp::kDiv, {total, terms}, type_of(sum));
  }
  void emit_member(int p, TileBody* out);
  bool lies_across(const Scalar& read) const;
  ScalarRef turned(const ScalarRef& value, TileBody* out);
  void emit_store(int p, TileBody* out);
  Partial emit_reduction(int p, TileBody* out);
  TileSymbolId emit_carry(TileLoop* loop, int p, const std::string& suffix,
                          const ScalarRef& initial,
                          const std::function<ScalarRef(const ScalarRef& old)>& next);
  TileSymbolId emit_total(TileSymbolId carry, int p, const std::string& suffix, Combiner combiner,
                          const std::function<ScalarRef(const ScalarRef& kept)>& value,
                          TileBody* out);
  void finish_reductions(std::vector<Partial> partials, TileBody* out);
  void combine_partials(const std::vector<Partial>& partials, TileBody* out);
  void share_partial(Partial* partial, TileBody* out);
  /// Whether the parts of one row lie side by side in memory: where rows do.
  bool parts_last() const { return is_row_axis(layout_.vec_axis); }
  std::vector<IndexExpr> partial_indices(int p, const IndexExpr& part) const;
  TileSymbolId combine_parts(int p, const std::string& suffix, Combiner combiner, TileVarId t,
                             ScalarRef value, TileBody* out);
  void finish_reduction(int p, TileSymbolId total, TileBody* out);
  /// Where an element stands along the axis that a reduction keeps a position of.
  ScalarRef position_along(int p) const {
    const auto reduced = static_cast<size_t>(b_.expr(p).output_rank());
    return scalar_index(b_.index(axes_.axis_of[static_cast<size_t>(p)][reduced]));
  }
  ScalarRef position_where(int p, const ScalarRef& same) const;
  ScalarRef translated(int p) const {
    return b_.translate(p, [this](int producer, const Scalar&) { return read_local(producer); });
  }
  ScalarRef contribution(int p) const {
    const TensorExpr& e = b_.expr(p);
    return keeps_position(e) ? translated(p) : scalar_convert(translated(p), e.accumulator);
  }
  ScalarRef read_local(int producer) const;
  /// A result of a member, in the block's registers.
  ScalarRef read_result(int p, TileSymbolId symbol) const {
    return scalar_read(symbol, b_.type_of(symbol), free_coordinates(p));
  }
  std::vector<IndexExpr> coordinates(int p) const;
  std::vector<IndexExpr> free_coordinates(int p) const;
  Place full_place() const;
  void stand_in_for_row();
  Place free_place() const;
  Place place_over_parts(TileVarId t) const;
  TileSymbolId add_value(const std::string& base, DType type,
                         TileSymbol::Kind kind = TileSymbol::Kind::kValue);
  static TileStatement assign(TileSymbolId symbol, std::vector<IndexExpr> indices, ScalarRef value,
                              Place place);
  DType type_of(int p) const {
    return program_.tensors[static_cast<size_t>(b_.expr(p).output)].type.dtype;
  }
  const std::string& name_of(int p) const {
    return program_.tensors[static_cast<size_t>(b_.expr(p).output)].name;
  }

  const TensorProgram& program_;
  const Group& group_;
  const JoinedGroup& joined_;
  const GroupAxes& axes_;
  const RowLayout& layout_;
  TileBuilder b_;
  int count_;
  std::map<int, std::vector<Place::Digit>> digits_;  ///< of the nest at hand
  bool in_tail_ = false;
  TileLoop::Dim split_;              ///< over the parts of a row that blocks share
  std::map<int, TileVarId> behind_;  ///< by axis of a row: its stand-in outside of sweeps
  std::map<int, TileVarId> var_;     ///< by axis with digits: its box variable
  std::vector<std::pair<ScalarRef, ScalarRef>> tiles_;  ///< reads across, and of their tiles
  std::map<int, TileSymbolId> made_;                    ///< by member: where its value is now
};

/// A row in registers has one variable for each of its axes; a part of one has its loop's.
void ThreadStitch::bind_row() {
  for (const int a : layout_.row) {
    if (a == layout_.split) {
      var_[a] = split_.offset;
      continue;
    }
    var_[a] =
        b_.program().add_var(b_.unique("j" + std::to_string(a)), TileVar::Kind::kAxis, extent(a));
    b_.bind(a, IndexExpr::var(var_[a]));
  }
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
    if (var_.count(a) != 0 && output_has(p, a)) out.push_back(b_.index(a));
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
/// where they are. Warps stand aside where the lanes take them in few turns: each then knows the
/// result, and none need exchange it.
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
  if (free_warps == 1 && layout_.parts <= lanes * kFewTurns) warps = 1;
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

TileSymbolId ThreadStitch::add_value(const std::string& base, DType type, TileSymbol::Kind kind) {
  TileSymbol symbol;
  symbol.name = b_.unique(base);
  symbol.kind = kind;
  symbol.type = type;
  return b_.program().add_symbol(std::move(symbol));
}

TileStatement ThreadStitch::assign(TileSymbolId symbol, std::vector<IndexExpr> indices,
                                   ScalarRef value, Place place) {
  TileStatement st;
  st.targets.push_back({symbol, std::move(indices), false});
  st.value = std::move(value);
  st.place = std::move(place);
  return st;
}

ScalarRef ThreadStitch::read_local(int producer) const {
  return scalar_read(made_.at(producer), type_of(producer), coordinates(producer));
}

void ThreadStitch::emit_member(int p, TileBody* out) {
  const TileSymbolId symbol = add_value(name_of(p) + "_v", type_of(p));
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
  if (!as_affine(element_offset(symbol.layout, shape, read.indices, b_.ranges()), &form)) {
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
    const TileSymbolId tile =
        add_value(b_.program().symbols[static_cast<size_t>(read->symbol)].name + "_t", read->type);
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
  for (int p = 0; p < count_; ++p) {
    if (axes_.level[static_cast<size_t>(p)] != level || is_unused(p)) continue;
    if (const CentralMoment* pair = joined_.with_second(p)) {
      partials.push_back(emit_moment(*pair, partials, out));
    } else if (reduces(p)) {
      partials.push_back(emit_reduction(p, out));
    } else if (is_row_value(p)) {
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

/// One statement over the whole row; two where a position is asked for: the best value, and the
/// first (or last) position that holds it. NaN is the best.
ThreadStitch::Partial ThreadStitch::emit_reduction(int p, TileBody* out) {
  const TensorExpr& e = b_.expr(p);
  const auto reduce = [&](const std::string& suffix, Combiner combiner, ScalarRef value) {
    const TileSymbolId symbol = add_value(name_of(p) + suffix, value->type);
    TileStatement st = assign(symbol, free_coordinates(p), std::move(value), full_place());
    st.combiner = tile_combiner(combiner);
    for (const int a : layout_.row) {
      if (has_axis(axes_, p, a)) st.reduce_axes.push_back(var_.at(a));
    }
    out->push_back(TileNode::of(std::move(st)));
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
    if (output_has(p, a)) at.push_back(b_.index(a));
  }
  at.insert(parts_last() ? at.end() : at.begin(), part);
  return at;
}

/// A block's own results where the others find them: an element for each row and part.
void ThreadStitch::share_partial(Partial* partial, TileBody* out) {
  for (TileSymbolId* own : {&partial->total, &partial->position}) {
    if (*own < 0) continue;
    const TileSymbol symbol = b_.program().symbols[static_cast<size_t>(*own)];
    const TileSymbolId shared = add_value(symbol.name + "_part", symbol.type);
    out->push_back(TileNode::of(assign(
        shared,
        partial_indices(partial->member, floor_div(IndexExpr::var(split_.origin), layout_.part)),
        read_result(partial->member, *own), full_place())));
    *own = shared;
  }
}

TileSymbolId ThreadStitch::combine_parts(int p, const std::string& suffix, Combiner combiner,
                                         TileVarId t, ScalarRef value, TileBody* out) {
  const TileSymbolId symbol = add_value(name_of(p) + suffix, value->type);
  TileStatement st = assign(symbol, free_coordinates(p), std::move(value),
                            in_tail_ ? full_place() : place_over_parts(t));
  st.combiner = tile_combiner(combiner);
  st.reduce_axes = {t};
  out->push_back(TileNode::of(std::move(st)));
  return symbol;
}

/// The total in the type of the tensor, stored where it is an output.
void ThreadStitch::finish_reduction(int p, TileSymbolId total, TileBody* out) {
  const DType type = type_of(p);
  made_[p] = total;
  if (b_.type_of(total) != type) {
    const TileSymbolId value = add_value(name_of(p) + "_v", type);
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
  const TileSymbolId value = add_value(name_of(p) + "_x", b_.expr(p).accumulator);
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
  const TileSymbolId moment = add_value(name_of(pair.second) + "_r", x->type);
  TileStatement st = assign(moment, free_coordinates(pair.second),
                            scalar_apply(ScalarOp::kMul, {d, d}, x->type), full_place());
  st.combiner = TileCombiner::kSum;
  for (const int a : layout_.row) {
    if (has_axis(axes_, pair.sum, a)) st.reduce_axes.push_back(var_.at(a));
  }
  out->push_back(TileNode::of(std::move(st)));
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
  const TileSymbolId carry = add_value(name_of(p) + suffix, type, TileSymbol::Kind::kCarry);
  TileCarry c;
  c.target = {carry, box, false};
  c.type = type;
  c.initial = initial;
  c.place = place;
  loop->carries.push_back(c);
  TileStatement update = assign(carry, box, next(scalar_read(carry, type, box)), place);
  update.targets[0].next = true;
  loop->body.push_back(TileNode::of(std::move(update)));
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
  const TileSymbolId total = add_value(name_of(p) + suffix, kept->type);
  TileStatement st = assign(total, free_coordinates(p), value(kept), full_place());
  if (!reduced.empty()) {
    st.combiner = tile_combiner(combiner);
    st.reduce_axes = reduced;
  }
  out->push_back(TileNode::of(std::move(st)));
  return total;
}

}  // namespace

ScheduledKernel stitch_threads(const TensorProgram& program, const Group& group,
                               const JoinedGroup& joined, const RowLayout& layout,
                               const std::string& name) {
  return ThreadStitch(program, group, joined, layout, name).build();
}

}  // namespace weft

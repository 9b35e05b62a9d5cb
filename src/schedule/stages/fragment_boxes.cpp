#include "schedule/stages/fragment_boxes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "schedule/gpu/matrix_tile.h"
#include "support/rounding.h"

namespace weft {

WarpGrid::WarpGrid(int64_t warps, int64_t rows, bool units) : on_units(units) {
  const int64_t least = units ? kUnitRows : kCoreRows;
  down = std::gcd(warps, std::max<int64_t>(rows / least, 1));
  across = warps / down;
}

int64_t WarpGrid::unit() const {
  constexpr int64_t kLeastDepth = 16;
  return std::max(kLeastDepth, across * (on_units ? kUnitColumns : kLeastDepth));
}

int64_t length_of_part(int64_t extent, int64_t step, int64_t splits) {
  return ceil_div(ceil_div(extent, splits), step) * step;
}

bool parts_form_cluster(int64_t splits, int64_t rows, const Target& target) {
  constexpr int64_t kLeastRows = 2;  // that a block joins
  return splits > 1 && splits <= target.cluster_blocks && rows % splits == 0 &&
         rows / splits >= kLeastRows;
}

FragmentBoxes::FragmentBoxes(const BlockSpace& space, const BlockPartition& partition, int row_loop,
                             const DemandBoxes& demand, int64_t unit, bool in_cluster,
                             TileProgram* program)
    : space_(space),
      partition_(partition),
      row_loop_(row_loop),
      demand_(demand),
      unit_(unit),
      in_cluster_(in_cluster),
      program_(*program) {}

int64_t FragmentBoxes::length_of(size_t l) const {
  if (static_cast<int>(l) == demand_.carrying) return demand_.carried_extent;
  const BlockPartition::Loop& along = partition_.loops[l];
  for (size_t r = 0; r < along.axes.size(); ++r) {
    if (along.axes[r] >= 0)
      return space_.expr(partition_.roots[r]).extents[static_cast<size_t>(along.axes[r])];
  }
  return 1;
}

TileLoop::Dim FragmentBoxes::add_loop(const std::string& name, int64_t step, int64_t end) {
  TileLoop::Dim dim;
  dim.step = step;
  dim.origin = program_.add_var(name, TileVar::Kind::kOrigin, 0);
  if (step > 1) dim.offset = program_.add_var(name, TileVar::Kind::kOffset, step);
  dim.begin = 0;
  dim.end = end;
  return dim;
}

void FragmentBoxes::make_loops() {
  for (size_t l = 0; l < demand_.loops.size(); ++l)
    loops_.push_back(add_loop("b" + std::to_string(l), demand_.loops[l].step, length_of(l)));
  if (space_.splits() > 1) {
    part_ = program_.add_var("s", TileVar::Kind::kOrigin, 0);
    const TileVarId counted = program_.add_var("t", TileVar::Kind::kAxis, space_.splits());
    parts_ = {IndexExpr::var(counted), counted, space_.splits(), space_.splits()};
    TileLoop::Dim& steps = loops_[static_cast<size_t>(demand_.carrying)];
    const int64_t whole = demand_.carried_extent,
                  length = length_of_part(whole, steps.step, space_.splits());
    steps.begin = IndexExpr::var(part_) * length;
    steps.end = steps.begin + length;
    if (whole % length != 0) steps.end = min(steps.end, IndexExpr(whole));
  }
  bound_steps();
  const TileLoop::Dim& rows = loops_[static_cast<size_t>(row_loop_)];
  rows_ = {program_.index_of(rows), rows.offset, rows.step, rows.end.constant()};
  // A block may have all of them, and what its warps have beyond.
  if (rows_.extent >= rows_.full) whole_.emplace(std::pair(rows_.full, 0), rows_);
}

/// The steps go as far as masks let any row of the block reach: whole ones, so that only the end of
/// the axis is a tail. What a part of the axis has out of reach lies before and behind.
void FragmentBoxes::bound_steps() {
  TileLoop::Dim& steps = loops_[static_cast<size_t>(demand_.carrying)];
  const int64_t whole = demand_.carried_extent;
  const IndexExpr first = steps.begin, last = steps.end;
  before_.begin = before_.end = first;
  behind_steps_.begin = behind_steps_.end = last;
  if (whole <= steps.step) return;
  const auto in_loops = [&](const IndexExpr& e) {
    return substitute(e,
                      [&](int l) { return IndexExpr::var(loops_[static_cast<size_t>(l)].origin); });
  };
  const auto within = [&](const IndexExpr& e) {
    return first.is_const(0) ? min(e, last) : max(min(e, last), first);
  };
  if (!demand_.carried_begin.is_const(0))
    steps.begin = before_.end = within(in_loops(demand_.carried_begin));
  if (!demand_.carried_end.is_const(whole)) {
    const IndexExpr up = in_loops(demand_.carried_end) + (steps.step - 1),
                    end = floor_div(up, steps.step) * steps.step;
    const bool ends_with_a_step = whole % steps.step == 0 && space_.splits() == 1;
    steps.end = behind_steps_.begin = ends_with_a_step ? end : within(end);
  }
}

/// An axis that no loop cuts. Members that have axes of one length call them alike, the first, the
/// second and so on. One that is no multiple of a unit is a loop of one iteration, beyond whose end
/// nothing is computed.
BoxVar FragmentBoxes::whole_axis(int64_t extent, int ordinal) {
  const auto [known, is_new] = whole_.try_emplace({extent, ordinal});
  BoxVar& out = known->second;
  if (!is_new) return out;
  const std::string name = "c" + std::to_string(whole_.size());
  out.full = extent;
  out.extent = round_up(extent, unit_);
  if (extent == out.extent) {
    out.var = program_.add_var(name, TileVar::Kind::kAxis, extent);
    out.index = IndexExpr::var(out.var);
    return out;
  }
  once_.push_back(add_loop(name, out.extent, extent));
  out.var = once_.back().offset;
  out.index = program_.index_of(once_.back());
  return out;
}

Status FragmentBoxes::find() {
  make_loops();
  boxes_.resize(static_cast<size_t>(space_.size()));
  for (int p = 0; p < space_.size(); ++p) {
    const TensorExpr& e = space_.expr(p);
    const Demand& own = demand_.members[static_cast<size_t>(p)];
    std::map<int64_t, int> ordinals;
    for (int v = 0; v < e.axis_count(); ++v) {
      BoxAxis axis{0, e.range(v).hi + 1, e.range(v).hi + 1};
      if (v < e.output_rank()) axis = own.box[static_cast<size_t>(v)];
      if (v == own.piece.variable) axis = own.piece.box;
      BoxVar out;
      if (v == space_.over_parts(p)) {
        out = parts_;
      } else if (axis.extent == 1) {
        out.index = substitute(axis.origin, [&](int l) {
          return IndexExpr::var(loops_[static_cast<size_t>(l)].origin);
        });
      } else if (axis.origin.is_const(0) && axis.extent == axis.full) {
        out = whole_axis(axis.full, ordinals[axis.full]++);
      } else if (axis.origin.is_var() &&
                 axis.extent == loops_[static_cast<size_t>(axis.origin.var_id())].step) {
        const TileLoop::Dim& loop = loops_[static_cast<size_t>(axis.origin.var_id())];
        out = {program_.index_of(loop), loop.offset, loop.step, axis.full};
      } else {
        return unsupported("blocks have a part of " + space_.name_of(p) + " that no loop walks");
      }
      boxes_[static_cast<size_t>(p)].push_back(out);
    }
  }
  return {};
}

Result<BoxVar> FragmentBoxes::columns_behind() const {
  BoxVar out;
  for (int p = 0; p < space_.size(); ++p) {
    if (!is_behind(p)) continue;
    for (const BoxVar& own : boxes_[static_cast<size_t>(p)]) {
      if (own.var < 0 || own.var == rows_.var || own.var == parts_.var) continue;
      if (out.var >= 0 && own.var != out.var)
        return unsupported(space_.name_of(p) + " has more than rows and columns behind the steps");
      out = own;
    }
  }
  return out;
}

/// A loop in steps over `length` elements of an axis from `first` on, and what one has of it.
BoxVar FragmentBoxes::add_behind(const std::string& name, const BoxVar& of, IndexExpr first,
                                 int64_t length, int64_t step) {
  TileLoop::Dim dim = add_loop(name, step, of.full);
  const RangeOf unknown = [](int) { return kUnbounded; };
  dim.begin = simplify(first, unknown);
  const bool is_whole = dim.begin.is_const(0) && length >= of.full;
  if (!is_whole) {
    dim.end = dim.begin + length;
    if (of.full % of.extent != 0) dim.end = min(dim.end, IndexExpr(of.full));
  }
  behind_.push_back(dim);
  return {program_.index_of(dim), dim.offset, step, of.full};
}

Status FragmentBoxes::move_behind(const Tile& tile) {
  WEFT_ASSIGN_OR_RETURN(const BoxVar columns, columns_behind());
  std::map<TileVarId, TileVarId> origins;
  for (int l = 0; l < demand_.over_blocks && !in_cluster_; ++l) {
    const TileLoop::Dim& loop = loops_[static_cast<size_t>(l)];
    const bool is_single = loop.step == 1;
    if (!is_single) continue;
    behind_.push_back(add_loop("d" + std::to_string(l), 1, loop.end.constant()));
    origins[loop.origin] = behind_.back().origin;
  }
  BoxVar columns_here;
  if (in_cluster_) {
    const auto first_of = [](const BoxVar& of) { return of.index - IndexExpr::var(of.var); };
    const int64_t share = rows_.extent / space_.splits();
    rows_behind_ =
        add_behind("dm", rows_, first_of(rows_) + IndexExpr::var(part_) * share, share, tile.rows);
    if (columns.var >= 0)
      columns_here = add_behind("dn", columns, first_of(columns), columns.extent, tile.columns);
  } else {
    rows_behind_ = add_behind("dm", rows_, 0, rows_.full, tile.rows);
    if (columns.var >= 0) columns_here = add_behind("dn", columns, 0, columns.full, tile.columns);
  }
  for (int p = 0; p < space_.size(); ++p) {
    if (!is_behind(p)) continue;
    for (BoxVar& own : boxes_[static_cast<size_t>(p)]) {
      if (own.var == parts_.var && own.var >= 0) continue;
      if (own.var == rows_.var) {
        own = rows_behind_;
      } else if (own.var >= 0) {
        own = columns_here;
      } else {
        own.index = substitute(own.index, [&](int id) {
          const auto here = origins.find(id);
          return IndexExpr::var(here == origins.end() ? id : here->second);
        });
      }
    }
  }
  return {};
}

std::vector<IndexExpr> FragmentBoxes::indices_of(int p) const {
  std::vector<IndexExpr> out;
  for (int d = 0; d < space_.expr(p).output_rank(); ++d) out.push_back(of(p, d).index);
  return out;
}

TileLoop::Dim FragmentBoxes::over_parts() const {
  TileLoop::Dim parts;
  parts.origin = part_;
  parts.begin = 0;
  parts.end = space_.splits();
  return parts;
}

std::vector<TileLoop::Dim> FragmentBoxes::over_blocks() const {
  std::vector<TileLoop::Dim> out;
  if (part_ >= 0 && !in_cluster_) out.push_back(over_parts());
  out.insert(out.end(), loops_.begin(), loops_.begin() + demand_.over_blocks);
  out.insert(out.end(), once_.begin(), once_.end());
  return out;
}

int64_t FragmentBoxes::unit_of(TileVarId id) const {
  for (const auto* loops : {&loops_, &once_, &behind_}) {
    for (const TileLoop::Dim& loop : *loops) {
      if (loop.origin == id) return loop.step;
    }
  }
  return 1;
}

}  // namespace weft

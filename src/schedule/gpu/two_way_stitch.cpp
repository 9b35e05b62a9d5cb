#include "schedule/gpu/two_way_stitch.h"

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>

#include "expr/analysis/dependence.h"
#include "fmt/format.h"
#include "group/two_ways.h"
#include "schedule/gpu/check_choice.h"
#include "schedule/gpu/choose_two_ways.h"
#include "schedule/writer/statements.h"
#include "schedule/writer/tile_builder.h"
#include "support/rounding.h"
#include "tile/rewrite/share_loads.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

/// Rows that stay in registers, several beside each other where they are short; each block goes
/// through a part of them in order and carries what it has of the reductions across. Behind a
/// barrier of the grid a second nest combines the parts of all blocks, in their order.
class TwoWayStitch {
 public:
  TwoWayStitch(const GroupSpace& space, const TwoWays& ways, const TwoWaysChoice& choice,
               const std::string& name)
      : space_(space),
        axes_(space.axes()),
        ways_(ways),
        b_(space, name),
        along_(choice.along),
        warps_(choice.warps),
        blocks_(choice.blocks),
        per_sm_(choice.per_sm),
        chunk_(choice.chunk),
        beside_(digits_extent(digits_along(choice.digits, ways.across))),
        digits_(choice.digits) {}

  ScheduledKernel build() {
    TileProgram& program = b_.program();
    TileLoop rows = rows_of_block();
    TileLoop parts = parts_of_rows();
    program.body.push_back(TileNode::of(std::move(rows)));
    program.body.push_back(TileNode::of(std::move(parts)));
    program.cpu = false;
    program.blocks = blocks_;
    program.warps = warps_;
    program.per_sm = per_sm_;
    share_loads(program);
    ScheduledKernel out = b_.take();
    out.schedule_template = "rows and columns";
    return out;
  }

 private:
  using Part = TwoWays::Part;
  using Digits = std::vector<Place::Digit>;

  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  Part part(int p) const { return ways_.part[static_cast<size_t>(p)]; }
  bool reduces(int p) const { return space_.reduces(p); }
  DType type_of(int p) const { return b_.result_type(p); }

  TileLoop rows_of_block();
  TileLoop parts_of_rows();
  void emit_row(int p, TileBody* out);
  void emit_across(int p, TileLoop* rows);
  void leave_part(int p, TileBody* out);
  void combine_parts(int p, TileVarId t, TileBody* out);
  void finish(int p, TileSymbolId total, TileBody* out);
  TileSymbolId emit_value(const std::string& base, int p, ScalarRef value, TileBody* out);
  TileSymbolId emit_reduced(const std::string& base, int p, std::vector<TileVarId> over,
                            ScalarRef value, TileBody* out);
  void emit_store(int p, TileBody* out);
  std::vector<IndexExpr> row_coordinates() const;
  std::vector<IndexExpr> coordinates(int p) const;
  Place place() const;
  ScalarRef translated(int p) const {
    return b_.translate(p, [this](int from, const Scalar&) {
      return scalar_read(made_.at(from), type_of(from), coordinates(from));
    });
  }

  const GroupSpace& space_;
  const GroupAxes& axes_;
  const TwoWays& ways_;
  TileBuilder b_;
  std::vector<int> along_;  ///< outermost first, the one that memory lies along last
  int64_t warps_, blocks_, per_sm_;
  int64_t chunk_;                                      ///< rows of a block
  int64_t beside_;                                     ///< rows at a time
  AxisDigits digits_;                                  ///< of the nest at hand
  std::map<int, TileVarId> var_;                       ///< by axis with digits: its box variable
  IndexExpr origin_ = 0;                               ///< of a block's rows
  std::map<int, TileSymbolId> made_, carried_, left_;  ///< by member
};

std::vector<IndexExpr> TwoWayStitch::row_coordinates() const {
  std::vector<IndexExpr> out;
  for (const int a : along_) out.push_back(b_.index(a));
  return out;
}

/// The row's number where several are beside each other, and the element of it.
std::vector<IndexExpr> TwoWayStitch::coordinates(int p) const {
  std::vector<IndexExpr> out;
  const auto has = [&](int axis) { return space_.output_has_axis(p, axis); };
  if (var_.count(ways_.across) != 0 && has(ways_.across)) out.push_back(b_.index(ways_.across));
  for (const int a : along_) {
    if (var_.count(a) != 0 && has(a)) out.push_back(b_.index(a));
  }
  return out;
}

Place TwoWayStitch::place() const {
  Place out;
  for (const auto& [axis, var] : var_) {
    const Digits& digits = digits_along(digits_, axis);
    if (!digits.empty()) out.axes.push_back({var, digits});
  }
  return out;
}

/// A value at the coordinates of a member's result.
TileSymbolId TwoWayStitch::emit_value(const std::string& base, int p, ScalarRef value,
                                      TileBody* out) {
  const TileSymbolId symbol = b_.add_value(space_.name_of(p) + base, value->type);
  out->push_back(TileNode::of(assign(symbol, coordinates(p), std::move(value), place())));
  return symbol;
}

TileSymbolId TwoWayStitch::emit_reduced(const std::string& base, int p, std::vector<TileVarId> over,
                                        ScalarRef value, TileBody* out) {
  const TileSymbolId symbol = b_.add_value(space_.name_of(p) + base, value->type);
  out->push_back(TileNode::of(assign_reduced(symbol, coordinates(p), b_.expr(p).combiner,
                                             std::move(over), std::move(value), place())));
  return symbol;
}

/// What a member made, where it must reach memory.
void TwoWayStitch::emit_store(int p, TileBody* out) {
  if (!space_.is_output(p)) return;
  out->push_back(
      TileNode::of(b_.store(p, scalar_read(made_.at(p), type_of(p), coordinates(p)), place())));
}

/// A block's rows in order, and what is left of them.
TileLoop TwoWayStitch::rows_of_block() {
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  grid.dims.push_back(b_.loop_dim(ways_.across, chunk_));
  origin_ = IndexExpr::var(grid.dims[0].origin);
  TileLoop rows;
  rows.kind = TileLoop::Kind::kSeq;
  rows.dims.push_back(b_.loop_dim(ways_.across, beside_));
  TileLoop::Dim& dim = rows.dims[0];
  dim.begin = origin_;
  dim.end = extent(ways_.across) % chunk_ == 0
                ? origin_ + chunk_
                : min(origin_ + chunk_, IndexExpr(extent(ways_.across)));
  if (beside_ > 1) var_[ways_.across] = dim.offset;
  for (const int a : along_) {
    var_[a] =
        b_.program().add_var(b_.unique("j" + std::to_string(a)), TileVar::Kind::kAxis, extent(a));
    b_.bind(a, IndexExpr::var(var_[a]));
  }
  for (int p = 0; p < space_.size(); ++p) {
    if (part(p) == Part::kRow) emit_row(p, &rows.body);
    if (part(p) == Part::kAcross) emit_across(p, &rows);
  }
  grid.body.push_back(TileNode::of(std::move(rows)));
  if (beside_ > 1) {
    var_[ways_.across] = b_.program().add_var(b_.unique("ii"), TileVar::Kind::kAxis, beside_);
  }
  for (int p = 0; p < space_.size(); ++p) {
    if (part(p) == Part::kAcross) leave_part(p, &grid.body);
  }
  return grid;
}

void TwoWayStitch::emit_row(int p, TileBody* out) {
  if (!reduces(p)) {
    made_[p] = emit_value("_v", p, translated(p), out);
    emit_store(p, out);
    return;
  }
  std::vector<TileVarId> over;
  for (const int a : along_) {
    if (has_axis(axes_, p, a)) over.push_back(var_.at(a));
  }
  const ScalarRef value = scalar_convert(translated(p), b_.expr(p).accumulator);
  finish(p, emit_reduced("_r", p, std::move(over), value, out), out);
}

/// Carried over a block's rows, an element for each of the row and of the rows beside each other.
void TwoWayStitch::emit_across(int p, TileLoop* rows) {
  const TensorExpr& e = b_.expr(p);
  const ScalarRef x = scalar_convert(translated(p), e.accumulator);
  std::vector<IndexExpr> box;
  if (beside_ > 1) box.push_back(IndexExpr::var(var_.at(ways_.across)));
  for (const int a : along_) box.push_back(b_.index(a));
  const TileSymbolId carry =
      b_.add_value(space_.name_of(p) + "_c", e.accumulator, TileSymbol::Kind::kCarry);
  rows->carries.push_back(
      carried(carry, box, scalar_constant(combiner_identity(e.combiner, e.accumulator)), place()));
  const ScalarRef next = combine_scalars(e.combiner, scalar_read(carry, e.accumulator, box), x);
  rows->body.push_back(TileNode::of(assign_next(carry, box, next, place())));
  carried_[p] = carry;
}

/// What a block has of a reduction across, where the second nest finds it.
void TwoWayStitch::leave_part(int p, TileBody* out) {
  const TensorExpr& e = b_.expr(p);
  TileSymbolId total = carried_.at(p);
  if (beside_ > 1) {
    std::vector<IndexExpr> kept{IndexExpr::var(var_.at(ways_.across))};
    for (const IndexExpr& at : row_coordinates()) kept.push_back(at);
    total = b_.add_value(space_.name_of(p) + "_b", e.accumulator);
    out->push_back(
        TileNode::of(assign_reduced(total, row_coordinates(), e.combiner, {var_.at(ways_.across)},
                                    scalar_read(carried_.at(p), e.accumulator, kept), place())));
  }
  left_[p] = b_.add_value(space_.name_of(p) + "_part", e.accumulator);
  std::vector<IndexExpr> at = row_coordinates();
  at.insert(at.begin(), floor_div(origin_, chunk_));
  out->push_back(TileNode::of(assign(
      left_.at(p), std::move(at), scalar_read(total, e.accumulator, row_coordinates()), place())));
}

/// Elements of a row on the lanes, parts of all blocks on the warps.
TileLoop TwoWayStitch::parts_of_rows() {
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  ThreadTile tile(warps_);
  var_.clear();
  digits_.clear();
  std::vector<TileLoop::Dim> dims;
  const int64_t of_parts = std::min(warps_, power_above(blocks_));
  for (const int a : std::views::reverse(along_)) {
    digits_[a] = tile.add(extent(a), 1, 32, tile.warps_left() / of_parts, 1);
    dims.push_back(b_.loop_dim(a, std::max<int64_t>(digits_extent(digits_[a]), 1)));
    if (dims.back().step > 1) var_[a] = dims.back().offset;
  }
  grid.dims.assign(dims.rbegin(), dims.rend());
  const TileVarId t = b_.program().add_var(b_.unique("t"), TileVar::Kind::kAxis, blocks_);
  digits_[ways_.across] = tile.add(blocks_, 1, tile.lanes_left(), warps_, 0);
  var_[ways_.across] = t;
  for (int p = 0; p < space_.size(); ++p) {
    if (part(p) == Part::kAcross) combine_parts(p, t, &grid.body);
    if (part(p) != Part::kTail) continue;
    made_[p] = emit_value("_v", p, translated(p), &grid.body);
    emit_store(p, &grid.body);
  }
  return grid;
}

void TwoWayStitch::combine_parts(int p, TileVarId t, TileBody* out) {
  const TensorExpr& e = b_.expr(p);
  std::vector<IndexExpr> at{IndexExpr::var(t)};
  for (const IndexExpr& j : row_coordinates()) at.push_back(j);
  finish(p, emit_reduced("_g", p, {t}, scalar_read(left_.at(p), e.accumulator, at), out), out);
}

/// The total in the type of the tensor, stored where it is an output.
void TwoWayStitch::finish(int p, TileSymbolId total, TileBody* out) {
  const DType type = type_of(p);
  made_[p] = total;
  if (b_.type_of(total) != type) {
    const ScalarRef value = scalar_read(total, b_.type_of(total), coordinates(p));
    made_[p] = emit_value("_v", p, scalar_convert(value, type), out);
  }
  emit_store(p, out);
}

/// Whether the choice is one for the rows of the space.
Status check(const GroupSpace& space, const TwoWays& ways, const TwoWaysChoice& choice,
             const Target& target) {
  const auto extent = [&](int a) { return space.axes().axes[static_cast<size_t>(a)].extent; };
  WEFT_RETURN_IF_ERROR(check_axes(space.axes(), ways.along, choice.along));
  WEFT_RETURN_IF_ERROR(check_threads(choice.digits, choice.warps));
  for (const auto& [a, list] : choice.digits) {
    if (a != ways.across && std::ranges::find(choice.along, a) == choice.along.end()) {
      return invalid_input(fmt::format("digits along axis {}, which rows do not have", a));
    }
  }
  for (const int a : choice.along) {
    if (digits_extent(digits_along(choice.digits, a)) < extent(a)) {
      return invalid_input(
          fmt::format("digits along axis {} that do not cover its {} elements", a, extent(a)));
    }
  }
  const int64_t rows = extent(ways.across);
  const int64_t beside = digits_extent(digits_along(choice.digits, ways.across));
  const bool shared_out = choice.chunk >= 1 && choice.chunk <= round_up(rows, beside) &&
                          choice.chunk % beside == 0 &&
                          choice.blocks == ceil_div(rows, choice.chunk);
  // A barrier of the grid: all blocks are on the device at once.
  const bool resident = choice.per_sm >= 1 && choice.per_sm <= target.blocks_per_sm &&
                        ceil_div(choice.blocks, choice.per_sm) <= target.sm_count;
  if (shared_out && resident) return {};
  return invalid_input(fmt::format("{} blocks of {} rows, {} on an SM, for {} rows, {} at a time",
                                   choice.blocks, choice.chunk, choice.per_sm, rows, beside));
}

}  // namespace

Result<ScheduledKernel> build_two_way_stitch(const GroupSpace& space, const TwoWaysChoice& choice,
                                             const Target& target, const std::string& name) {
  if (const Decision fits = reduces_two_ways(space, target); !fits) {
    return invalid_input(fits.reason());
  }
  TwoWays ways;
  const Decision found = space.two_ways(&ways);
  WEFT_CHECK(found, found.reason());
  WEFT_RETURN_IF_ERROR(check(space, ways, choice, target));
  return TwoWayStitch(space, ways, choice, name).build();
}

}  // namespace weft

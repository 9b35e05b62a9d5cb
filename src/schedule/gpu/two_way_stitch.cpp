#include <algorithm>
#include <functional>
#include <map>
#include <ranges>

#include "expr/dependence.h"
#include "fmt/format.h"
#include "group/strides.h"
#include "group/two_ways.h"
#include "schedule/gpu/templates.h"
#include "schedule/writer/tile_builder.h"
#include "support/rounding.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/check/fits.h"
#include "tile/rewrite/share_loads.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

/// Registers of a block for elements of its rows: of the largest one's threads, addresses left out.
constexpr int64_t kElementRegisters = int64_t{48} << 10;
/// Values of a row that live at once, beside what is carried.
constexpr int64_t kRowValues = 4;
constexpr int64_t kMostWarps = 32;
/// Warps of a block whose rows need no common memory.
constexpr int64_t kFreeWarps = 8;
/// Elements of a thread before a row is given more warps.
constexpr int64_t kEnoughHeld = 8;
/// Rows that a block goes through at least: what it leaves of them is little beside what it reads.
constexpr int64_t kFewestRows = 8;
/// Threads of an SM that leave each of them 64 registers.
constexpr int64_t kRoomyThreads = 1024;

/// Rows that stay in registers, several beside each other where they are short; each block goes
/// through a part of them in order and carries what it has of the reductions across. Behind a
/// barrier of the grid a second nest combines the parts of all blocks, in their order.
class TwoWayStitch {
 public:
  TwoWayStitch(const TensorProgram& program, const Group& group, const GroupAxes& axes,
               const TwoWays& ways, const Target& target, int64_t most_per_sm,
               const std::string& name)
      : program_(program),
        group_(group),
        axes_(axes),
        ways_(ways),
        b_(program, group, axes, name),
        count_(static_cast<int>(group.exprs.size())) {
    lay_out(target, most_per_sm);
  }

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
    ScheduledKernel out;
    out.program = std::move(program);
    out.parameters = b_.take_parameters();
    out.schedule_template = "rows and columns";
    return out;
  }

 private:
  using Part = TwoWays::Part;
  using Digits = std::vector<Place::Digit>;

  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  Part part(int p) const { return ways_.part[static_cast<size_t>(p)]; }
  bool reduces(int p) const { return !b_.expr(p).reduce_extents.empty(); }
  bool is_output(int p) const {
    return std::find(group_.outputs.begin(), group_.outputs.end(), b_.expr(p).output) !=
           group_.outputs.end();
  }
  const Tensor& tensor_of(int p) const {
    return program_.tensors[static_cast<size_t>(b_.expr(p).output)];
  }
  DType type_of(int p) const { return tensor_of(p).type.dtype; }

  void lay_out(const Target& target, int64_t most_per_sm);
  int64_t vector_elements(int axis) const;
  TileLoop rows_of_block();
  TileLoop parts_of_rows();
  void emit_row(int p, TileBody* out);
  void emit_across(int p, TileLoop* rows);
  void leave_part(int p, TileBody* out);
  void combine_parts(int p, TileVarId t, TileBody* out);
  void finish(int p, TileSymbolId total, TileBody* out);
  TileSymbolId add_value(const std::string& base, DType type,
                         TileSymbol::Kind kind = TileSymbol::Kind::kValue);
  TileSymbolId assign(const std::string& base, int p, ScalarRef value, const Place& place,
                      TileBody* out);
  std::vector<IndexExpr> row_coordinates() const;
  std::vector<IndexExpr> coordinates(int p) const;
  Place place() const;
  ScalarRef translated(int p) const {
    return b_.translate(p, [this](int from, const Scalar&) {
      return scalar_read(made_.at(from), type_of(from), coordinates(from));
    });
  }

  const TensorProgram& program_;
  const Group& group_;
  const GroupAxes& axes_;
  const TwoWays& ways_;
  TileBuilder b_;
  int count_;
  std::vector<int> along_;  ///< outermost first, the one that memory lies along last
  int64_t warps_ = 1, blocks_ = 1, per_sm_ = 1;
  int64_t chunk_ = 1;                                  ///< rows of a block
  int64_t beside_ = 1;                                 ///< rows at a time
  std::map<int, Digits> digits_;                       ///< by axis, of the nest at hand
  std::map<int, TileVarId> var_;                       ///< by axis with digits: its box variable
  IndexExpr origin_ = 0;                               ///< of a block's rows
  std::map<int, TileSymbolId> made_, carried_, left_;  ///< by member
};

/// Elements of one access along an axis, by the widest type that lies along it.
int64_t TwoWayStitch::vector_elements(int axis) const {
  int64_t bytes = 1;
  for (int p = 0; p < count_; ++p) {
    visit(b_.expr(p).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || axes_.producer(s.symbol) >= 0) return;
      if (stride_along(program_, axes_, p, s, axis) == 1) {
        bytes = std::max(bytes, byte_size(s.type));
      }
    });
  }
  return access_elements(extent(axis), bytes, false);
}

void TwoWayStitch::lay_out(const Target& target, int64_t most_per_sm) {
  along_ = ways_.along;
  const auto contiguous = [&](int axis) {
    bool one = false;
    for (int p = 0; p < count_; ++p) {
      visit(b_.expr(p).body, [&](const Scalar& s) {
        one |= s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) < 0 &&
               stride_along(program_, axes_, p, s, axis) == 1;
      });
    }
    return one;
  };
  std::sort(along_.begin(), along_.end(), [&](int a, int c) {
    return std::pair(contiguous(a), a) < std::pair(contiguous(c), c);
  });
  int64_t elements = 1;
  for (const int a : along_) elements *= extent(a);
  int64_t row_warps = 1;
  while (row_warps < kMostWarps && elements > row_warps * 32 * kEnoughHeld) row_warps *= 2;
  ThreadTile tile(row_warps > 1 ? row_warps : kFreeWarps);
  for (auto a = along_.rbegin(); a != along_.rend(); ++a) {
    const int64_t vec = a == along_.rbegin() ? vector_elements(*a) : 1;
    digits_[*a] = tile.add(extent(*a), vec, 32, row_warps, 0);
  }
  const int64_t rows = extent(ways_.across);
  digits_[ways_.across] = tile.add(rows, 1, 32, kFreeWarps, 1);
  for (const auto& [a, list] : digits_) {
    for (const Place::Digit& d : list) warps_ *= d.level == PlaceLevel::kWarp ? d.extent : 1;
  }
  beside_ = digits_extent(digits_[ways_.across]);
  const int64_t room = std::min<int64_t>(kRoomyThreads, target.threads_per_sm) / (warps_ * 32);
  const int64_t held = std::clamp<int64_t>(std::min(room, most_per_sm), 1, target.blocks_per_sm);
  const int64_t most =
      std::min(target.sm_count * held, std::max<int64_t>(rows / std::max(kFewestRows, beside_), 1));
  chunk_ = round_up(ceil_div(rows, most), beside_);
  blocks_ = ceil_div(rows, chunk_);
  per_sm_ = ceil_div(blocks_, target.sm_count);
}

std::vector<IndexExpr> TwoWayStitch::row_coordinates() const {
  std::vector<IndexExpr> out;
  for (const int a : along_) out.push_back(b_.index(a));
  return out;
}

/// The row's number where several are beside each other, and the element of it.
std::vector<IndexExpr> TwoWayStitch::coordinates(int p) const {
  std::vector<IndexExpr> out;
  const auto& own = axes_.axis_of[static_cast<size_t>(p)];
  const auto end = own.begin() + b_.expr(p).output_rank();
  const auto has = [&](int axis) { return std::find(own.begin(), end, axis) != end; };
  if (var_.count(ways_.across) != 0 && has(ways_.across)) out.push_back(b_.index(ways_.across));
  for (const int a : along_) {
    if (var_.count(a) != 0 && has(a)) out.push_back(b_.index(a));
  }
  return out;
}

Place TwoWayStitch::place() const {
  Place out;
  for (const auto& [axis, var] : var_) {
    const Digits& digits = digits_.at(axis);
    if (!digits.empty()) out.axes.push_back({var, digits});
  }
  return out;
}

TileSymbolId TwoWayStitch::add_value(const std::string& base, DType type, TileSymbol::Kind kind) {
  TileSymbol symbol;
  symbol.name = b_.unique(base);
  symbol.kind = kind;
  symbol.type = type;
  return b_.program().add_symbol(std::move(symbol));
}

/// A value at the coordinates of a member's result.
TileSymbolId TwoWayStitch::assign(const std::string& base, int p, ScalarRef value,
                                  const Place& place, TileBody* out) {
  const TileSymbolId symbol = add_value(tensor_of(p).name + base, value->type);
  TileStatement st;
  st.targets.push_back({symbol, coordinates(p), false});
  st.value = std::move(value);
  st.place = place;
  out->push_back(TileNode::of(std::move(st)));
  return symbol;
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
  for (int p = 0; p < count_; ++p) {
    if (part(p) == Part::kRow) emit_row(p, &rows.body);
    if (part(p) == Part::kAcross) emit_across(p, &rows);
  }
  grid.body.push_back(TileNode::of(std::move(rows)));
  if (beside_ > 1) {
    var_[ways_.across] = b_.program().add_var(b_.unique("ii"), TileVar::Kind::kAxis, beside_);
  }
  for (int p = 0; p < count_; ++p) {
    if (part(p) == Part::kAcross) leave_part(p, &grid.body);
  }
  return grid;
}

void TwoWayStitch::emit_row(int p, TileBody* out) {
  const TensorExpr& e = b_.expr(p);
  if (!reduces(p)) {
    made_[p] = assign("_v", p, translated(p), place(), out);
  } else {
    const TileSymbolId total =
        assign("_r", p, scalar_convert(translated(p), e.accumulator), place(), out);
    TileStatement& st = out->back().statement;
    st.combiner = tile_combiner(e.combiner);
    for (const int a : along_) {
      const auto& own = axes_.axis_of[static_cast<size_t>(p)];
      if (std::find(own.begin(), own.end(), a) != own.end()) st.reduce_axes.push_back(var_.at(a));
    }
    finish(p, total, out);
    return;
  }
  if (!is_output(p)) return;
  out->push_back(
      TileNode::of(b_.store(p, scalar_read(made_.at(p), type_of(p), coordinates(p)), place())));
}

/// Carried over a block's rows, an element for each of the row and of the rows beside each other.
void TwoWayStitch::emit_across(int p, TileLoop* rows) {
  const TensorExpr& e = b_.expr(p);
  const ScalarRef x = scalar_convert(translated(p), e.accumulator);
  std::vector<IndexExpr> box;
  if (beside_ > 1) box.push_back(IndexExpr::var(var_.at(ways_.across)));
  for (const int a : along_) box.push_back(b_.index(a));
  const TileSymbolId carry =
      add_value(tensor_of(p).name + "_c", e.accumulator, TileSymbol::Kind::kCarry);
  TileCarry c;
  c.target = {carry, box, false};
  c.type = e.accumulator;
  c.initial = scalar_constant(combiner_identity(e.combiner, e.accumulator));
  c.place = place();
  rows->carries.push_back(std::move(c));
  TileStatement update;
  update.targets.push_back({carry, box, true});
  update.value = combine_scalars(e.combiner, scalar_read(carry, e.accumulator, box), x);
  update.place = place();
  rows->body.push_back(TileNode::of(std::move(update)));
  carried_[p] = carry;
}

/// What a block has of a reduction across, where the second nest finds it.
void TwoWayStitch::leave_part(int p, TileBody* out) {
  const TensorExpr& e = b_.expr(p);
  TileSymbolId total = carried_.at(p);
  if (beside_ > 1) {
    std::vector<IndexExpr> kept{IndexExpr::var(var_.at(ways_.across))};
    for (const IndexExpr& at : row_coordinates()) kept.push_back(at);
    total = add_value(tensor_of(p).name + "_b", e.accumulator);
    TileStatement st;
    st.targets.push_back({total, row_coordinates(), false});
    st.value = scalar_read(carried_.at(p), e.accumulator, kept);
    st.combiner = tile_combiner(e.combiner);
    st.reduce_axes = {var_.at(ways_.across)};
    st.place = place();
    out->push_back(TileNode::of(std::move(st)));
  }
  left_[p] = add_value(tensor_of(p).name + "_part", e.accumulator);
  TileStatement leave;
  leave.targets.push_back({left_.at(p), row_coordinates(), false});
  leave.targets[0].indices.insert(leave.targets[0].indices.begin(), floor_div(origin_, chunk_));
  leave.value = scalar_read(total, e.accumulator, row_coordinates());
  leave.place = place();
  out->push_back(TileNode::of(std::move(leave)));
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
  for (int p = 0; p < count_; ++p) {
    if (part(p) == Part::kAcross) combine_parts(p, t, &grid.body);
    if (part(p) != Part::kTail) continue;
    made_[p] = assign("_v", p, translated(p), place(), &grid.body);
    if (!is_output(p)) continue;
    grid.body.push_back(
        TileNode::of(b_.store(p, scalar_read(made_.at(p), type_of(p), coordinates(p)), place())));
  }
  return grid;
}

void TwoWayStitch::combine_parts(int p, TileVarId t, TileBody* out) {
  const TensorExpr& e = b_.expr(p);
  std::vector<IndexExpr> at{IndexExpr::var(t)};
  for (const IndexExpr& j : row_coordinates()) at.push_back(j);
  const TileSymbolId total =
      assign("_g", p, scalar_read(left_.at(p), e.accumulator, at), place(), out);
  TileStatement& st = out->back().statement;
  st.combiner = tile_combiner(e.combiner);
  st.reduce_axes = {t};
  finish(p, total, out);
}

/// The total in the type of the tensor, stored where it is an output.
void TwoWayStitch::finish(int p, TileSymbolId total, TileBody* out) {
  const DType type = type_of(p);
  made_[p] = total;
  if (b_.type_of(total) != type) {
    const ScalarRef value = scalar_read(total, b_.type_of(total), coordinates(p));
    made_[p] = assign("_v", p, scalar_convert(value, type), place(), out);
  }
  if (!is_output(p)) return;
  out->push_back(
      TileNode::of(b_.store(p, scalar_read(made_.at(p), type, coordinates(p)), place())));
}

}  // namespace

Decision two_ways_apply(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                        const Target& target) {
  if (!target.is_gpu() || !target.grid_barriers) {
    return Decision::forbid(target.name + " reduces rows one way in a kernel");
  }
  TwoWays ways;
  Decision found = find_two_ways(program, group, axes, &ways);
  if (!found) return found;
  const int64_t carried = std::ranges::count(ways.part, TwoWays::Part::kAcross);
  const int64_t most = kElementRegisters / (carried + kRowValues);
  int64_t elements = 1;
  for (const int a : ways.along) {
    elements *= std::min(axes.axes[static_cast<size_t>(a)].extent, most + 1);
    if (elements > most) {
      return Decision::forbid(
          fmt::format("rows of more than {} elements do not stay in registers", most));
    }
  }
  return found;
}

Result<ScheduledKernel> build_two_way_stitch(const TensorProgram& program, const Group& group,
                                             const GroupAxes& axes, const Target& target,
                                             const std::string& name) {
  TwoWays ways;
  const Decision found = find_two_ways(program, group, axes, &ways);
  WEFT_CHECK(found, "rows reduced both ways in " + name);
  // As many blocks on an SM as its registers allow; one in any case.
  for (int64_t per_sm = 4;; per_sm /= 2) {
    ScheduledKernel kernel = TwoWayStitch(program, group, axes, ways, target, per_sm, name).build();
    if (per_sm == 1) return kernel;
    WEFT_ASSIGN_OR_RETURN(const ScopeAnalysis scopes, derive_scopes(kernel.program));
    if (fits(kernel.program, scopes, target)) return kernel;
  }
}

}  // namespace weft

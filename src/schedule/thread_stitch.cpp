#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "expr/dependence.h"
#include "schedule/templates.h"
#include "schedule/thread_tile.h"
#include "schedule/tile_builder.h"

namespace weft {

namespace {

/// Elements of a row that one thread may hold of each value: beyond, registers run out.
constexpr int64_t kMostHeld = 64;
/// Elements that a thread should have before a row is given more warps.
constexpr int64_t kEnoughHeld = 16;
constexpr int64_t kMostWarps = 32;
/// Warps of a block whose rows or elements need no common memory.
constexpr int64_t kFreeWarps = 8;

bool has_axis(const GroupAxes& axes, int position, int axis) {
  const auto& list = axes.axis_of[static_cast<size_t>(position)];
  return std::find(list.begin(), list.end(), axis) != list.end();
}

/// The stitched template on a GPU. A row lies on the threads of a block (or of a part of it) and
/// stays in registers from its load to its last use; where it is too long for that, each level of
/// reductions is a sweep over it that computes again what it needs.
class ThreadStitch {
 public:
  ThreadStitch(const TensorProgram& program, const Group& group, const GroupAxes& axes,
               const Target& target, const std::string& name, bool resident)
      : program_(program),
        group_(group),
        axes_(axes),
        target_(target),
        b_(program, group, axes, name),
        count_(static_cast<int>(group.exprs.size())),
        resident_(resident) {}

  Result<ScheduledKernel> build() {
    choose_vector_axis();
    lay_out();
    TileLoop grid;
    grid.kind = TileLoop::Kind::kGrid;
    int64_t items = 1;
    for (const int a : free_) {
      const int64_t step = std::max<int64_t>(digits_extent(digits_[a]), 1);
      grid.dims.push_back(b_.loop_dim(a, step));
      items *= (extent(a) + step - 1) / step;
      if (step > 1) var_[a] = grid.dims.back().offset;
    }
    if (resident_) bind_row();
    grid.body = body();
    b_.program().body = b_.one_nest(std::move(grid));
    b_.program().cpu = false;
    b_.program().blocks = items;
    b_.program().warps = warps_;
    ScheduledKernel out;
    out.program = std::move(b_.program());
    out.parameters = b_.take_parameters();
    out.schedule_template = axes_.reductions.empty() ? "elementwise"
                            : resident_              ? "rows in registers"
                                                     : "rows in sweeps";
    return out;
  }

 private:
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  bool reduces(int p) const { return !b_.expr(p).reduce_extents.empty(); }
  bool is_row_axis(int a) const { return std::find(row_.begin(), row_.end(), a) != row_.end(); }
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

  void choose_vector_axis();
  int64_t widest_element() const;
  void lay_out();
  void bind_row();
  TileBody body();
  std::set<int> needed_in(int level) const;
  void emit_scalars(int level, TileBody* out);
  void emit_resident(int level, TileBody* out);
  void emit_sweep(int level, TileBody* out);
  void emit_sweep_over(const std::set<int>& needed, int level, TileBody* out);
  TileLoop row_loop();
  void emit_member(int p, TileBody* out);
  void emit_reduction(int p, TileBody* out);
  void emit_position(int p, TileBody* out);
  void emit_carry(TileLoop* loop, TileBody* after, const std::string& base, Combiner combiner,
                  ScalarRef contribution, TileSymbolId* result);
  void finish_reduction(int p, TileSymbolId total, TileBody* out);
  ScalarRef position_of(int p, TileSymbolId best) const;
  ScalarRef translated(int p) const {
    return b_.translate(p, [this](int producer, const Scalar&) { return read_local(producer); });
  }
  ScalarRef read_local(int producer) const;
  std::vector<IndexExpr> coordinates(int p) const;
  std::vector<IndexExpr> free_coordinates(int p) const;
  Place full_place(int p) const;
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
  const GroupAxes& axes_;
  const Target& target_;
  TileBuilder b_;
  int count_;
  bool resident_;

  int vec_axis_ = -1;
  std::vector<int> free_, row_;  ///< axes of extent > 1, outermost first: of the grid, of a row
  std::map<int, std::vector<Place::Digit>> digits_;  ///< by axis; none: one element
  std::map<int, TileVarId> var_;                     ///< by axis with digits: its box variable
  int64_t warps_ = 1;
  std::map<int, TileSymbolId> made_;  ///< by member: where its value is now
};

void ThreadStitch::choose_vector_axis() {
  std::vector<int> all;
  for (size_t a = 0; a < axes_.axes.size(); ++a) {
    if (axes_.axes[a].extent != 1) all.push_back(static_cast<int>(a));
  }
  double best = 0;
  for (const int a : all) {
    double score = 0;
    for (int p = 0; p < count_; ++p) {
      const auto weigh = [&](int64_t stride, DType type) {
        if (stride == 1) score += 4.0 * static_cast<double>(byte_size(type));
        if (stride > 1 || stride < 0) score -= static_cast<double>(byte_size(type));
      };
      visit(b_.expr(p).body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) < 0)
          weigh(stride_along(program_, axes_, p, s, a), s.type);
      });
      if (is_output(p)) {
        weigh(output_stride_along(program_, axes_, group_, p, a), type_of(p));
      }
    }
    score += std::min(static_cast<double>(extent(a)), 128.0) / 256;
    if (vec_axis_ < 0 || score > best) {
      best = score;
      vec_axis_ = a;
    }
  }
  // Outermost first, by the strides of the widest output.
  int main = count_ - 1;
  for (int p = 0; p < count_; ++p) {
    if (is_output(p) && axes_.axis_of[static_cast<size_t>(p)].size() >=
                            axes_.axis_of[static_cast<size_t>(main)].size())
      main = p;
  }
  std::sort(all.begin(), all.end(), [&](int a, int c) {
    if ((a == vec_axis_) != (c == vec_axis_)) return c == vec_axis_;
    const int64_t sa = output_stride_along(program_, axes_, group_, main, a);
    const int64_t sc = output_stride_along(program_, axes_, group_, main, c);
    return sa != sc ? sa > sc : a < c;
  });
  for (const int a : all) {
    (axes_.axes[static_cast<size_t>(a)].reduced ? row_ : free_).push_back(a);
  }
}

/// Of the tensors that lie one element after another along the vector axis.
int64_t ThreadStitch::widest_element() const {
  int64_t bytes = 1;
  for (int p = 0; p < count_; ++p) {
    visit(b_.expr(p).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) < 0 &&
          stride_along(program_, axes_, p, s, vec_axis_) == 1) {
        bytes = std::max(bytes, byte_size(s.type));
      }
    });
    if (is_output(p) && output_stride_along(program_, axes_, group_, p, vec_axis_) == 1) {
      bytes = std::max(bytes, byte_size(type_of(p)));
    }
  }
  return bytes;
}

void ThreadStitch::lay_out() {
  if (vec_axis_ < 0) return;
  const bool alone = free_.size() + row_.size() == 1;
  const int64_t vec = access_elements(extent(vec_axis_), widest_element(), alone);
  const bool row_vector = is_row_axis(vec_axis_);
  int64_t row_elements = 1;
  for (const int a : row_) row_elements *= extent(a);

  // Warps that share a row: as many as leave each thread enough of it.
  int64_t row_warps = 1;
  if (!row_.empty()) {
    const int64_t lanes = row_vector ? 32 : 1;
    while (row_warps < kMostWarps && row_elements > row_warps * lanes * kEnoughHeld) row_warps *= 2;
    if (!row_vector) row_warps = std::min<int64_t>(row_warps, kFreeWarps);
  }
  const int64_t warps =
      std::max(row_warps, row_.empty() || row_warps == 1 ? kFreeWarps : row_warps);
  ThreadTile tile(warps);
  const auto order = [&](const std::vector<int>& list) {
    return std::vector<int>(list.rbegin(), list.rend());
  };
  if (row_.empty()) {
    // Several vectors a thread where there are more than enough blocks all the same.
    int64_t total = 1;
    for (const int a : free_) total *= extent(a);
    const int64_t enough = int64_t{target_.sm_count} * 8 * warps * 32 * vec;
    const int64_t regs = std::clamp<int64_t>(total / std::max<int64_t>(enough, 1), 1, 4);
    for (const int a : order(free_)) {
      const bool first = a == vec_axis_;
      digits_[a] = tile.add(extent(a), first ? vec : 1, 32, warps, first ? regs : 1);
    }
  } else if (row_vector) {
    for (const int a : order(row_)) {
      const bool first = a == vec_axis_;
      digits_[a] = tile.add(extent(a), first ? vec : 1, 32, row_warps,
                            resident_ ? 0
                            : first   ? 2
                                      : 1);
    }
    for (const int a : order(free_)) digits_[a] = tile.add(extent(a), 1, 32, kFreeWarps, 1);
  } else {
    digits_[vec_axis_] = tile.add(extent(vec_axis_), vec, 32, 1, 1);
    for (const int a : order(free_)) {
      if (a != vec_axis_) digits_[a] = tile.add(extent(a), 1, 32, 1, 1);
    }
    for (const int a : order(row_)) {
      digits_[a] = tile.add(extent(a), 1, tile.lanes_left(), row_warps, resident_ ? 0 : 4);
    }
  }
  warps_ = 1;
  for (auto& [a, list] : digits_) {
    for (const Place::Digit& d : list) warps_ *= d.level == PlaceLevel::kWarp ? d.extent : 1;
  }
}

/// A row in registers has one variable for each of its axes.
void ThreadStitch::bind_row() {
  for (const int a : row_) {
    var_[a] =
        b_.program().add_var(b_.unique("j" + std::to_string(a)), TileVar::Kind::kAxis, extent(a));
    b_.bind(a, IndexExpr::var(var_[a]));
  }
}

TileBody ThreadStitch::body() {
  TileBody out;
  for (int level = 0; level < axes_.levels; ++level) {
    emit_scalars(level, &out);
    resident_ ? emit_resident(level, &out) : emit_sweep(level, &out);
  }
  return out;
}

/// Coordinates of a value in the axes of the grid that the box has.
std::vector<IndexExpr> ThreadStitch::free_coordinates(int p) const {
  std::vector<IndexExpr> out;
  for (const int a : free_) {
    if (var_.count(a) != 0 && output_has(p, a)) out.push_back(b_.index(a));
  }
  return out;
}

std::vector<IndexExpr> ThreadStitch::coordinates(int p) const {
  std::vector<IndexExpr> out = free_coordinates(p);
  if (reduces(p)) return out;
  for (const int a : row_) {
    if (has_axis(axes_, p, a)) out.push_back(b_.index(a));
  }
  return out;
}

/// The block's place where the member's box has all of its axes; else none: it is that of what the
/// member reads, or of its reader.
Place ThreadStitch::full_place(int p) const {
  Place place;
  for (const auto* list : {&free_, &row_}) {
    for (const int a : *list) {
      const auto var = var_.find(a);
      const auto digits = digits_.find(a);
      if (var == var_.end() || digits == digits_.end() || digits->second.empty()) continue;
      if (!has_axis(axes_, p, a)) return {};
      place.axes.push_back({var->second, digits->second});
    }
  }
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
  out->push_back(TileNode::of(assign(symbol, coordinates(p), translated(p), full_place(p))));
  made_[p] = symbol;
}

void ThreadStitch::emit_scalars(int level, TileBody* out) {
  for (int p = 0; p < count_; ++p) {
    if (axes_.level[static_cast<size_t>(p)] != level || is_row_value(p) || reduces(p)) continue;
    emit_member(p, out);
    if (is_output(p)) out->push_back(TileNode::of(b_.store(p, read_local(p), full_place(p))));
  }
}

void ThreadStitch::emit_resident(int level, TileBody* out) {
  for (int p = 0; p < count_; ++p) {
    if (axes_.level[static_cast<size_t>(p)] != level) continue;
    if (reduces(p)) {
      emit_reduction(p, out);
    } else if (is_row_value(p)) {
      emit_member(p, out);
      if (is_output(p)) out->push_back(TileNode::of(b_.store(p, read_local(p), full_place(p))));
    }
  }
}

/// Where the best value stands: the first (or last) position that holds it; NaN is the best.
ScalarRef ThreadStitch::position_of(int p, TileSymbolId best) const {
  const TensorExpr& e = b_.expr(p);
  const int axis = axes_.axis_of[static_cast<size_t>(p)][static_cast<size_t>(e.output_rank())];
  const int64_t none = e.last_on_ties ? -1 : std::numeric_limits<int64_t>::max();
  const ScalarRef x = translated(p);
  const ScalarRef top = scalar_read(best, x->type, free_coordinates(p));
  const auto truth = [](ScalarOp op, std::vector<ScalarRef> operands) {
    return scalar_apply(op, std::move(operands), DType::kBool);
  };
  ScalarRef same = truth(ScalarOp::kEq, {x, top});
  if (is_float(x->type)) {
    same = truth(ScalarOp::kOr, {same, truth(ScalarOp::kAnd, {truth(ScalarOp::kIsNan, {x}),
                                                              truth(ScalarOp::kIsNan, {top})})});
  }
  return scalar_apply(
      ScalarOp::kSelect,
      {same, scalar_index(b_.index(axis)), scalar_constant(int_value(DType::kI64, none))},
      DType::kI64);
}

bool keeps_position(const TensorExpr& e) {
  return e.combiner == Combiner::kArgMax || e.combiner == Combiner::kArgMin;
}
Combiner best_of(const TensorExpr& e) {
  return e.combiner == Combiner::kArgMax ? Combiner::kMax : Combiner::kMin;
}

/// One statement over the whole row.
void ThreadStitch::emit_reduction(int p, TileBody* out) {
  const TensorExpr& e = b_.expr(p);
  const auto reduce = [&](const std::string& suffix, Combiner combiner, ScalarRef value) {
    const TileSymbolId symbol = add_value(name_of(p) + suffix, value->type);
    TileStatement st = assign(symbol, free_coordinates(p), std::move(value), full_place(p));
    st.combiner = tile_combiner(combiner);
    for (const int a : row_) {
      if (has_axis(axes_, p, a)) st.reduce_axes.push_back(var_.at(a));
    }
    out->push_back(TileNode::of(std::move(st)));
    return symbol;
  };
  if (keeps_position(e)) {
    const TileSymbolId best = reduce("_m", best_of(e), translated(p));
    const Combiner pick = e.last_on_ties ? Combiner::kMax : Combiner::kMin;
    finish_reduction(p, reduce("_r", pick, position_of(p, best)), out);
    return;
  }
  finish_reduction(p, reduce("_r", e.combiner, scalar_convert(translated(p), e.accumulator)), out);
}

/// The total in the type of the tensor, stored where it is an output.
void ThreadStitch::finish_reduction(int p, TileSymbolId total, TileBody* out) {
  const DType type = type_of(p);
  const DType made = b_.program().symbols[static_cast<size_t>(total)].type;
  made_[p] = total;
  if (made != type) {
    const TileSymbolId value = add_value(name_of(p) + "_v", type);
    out->push_back(TileNode::of(
        assign(value, free_coordinates(p),
               scalar_convert(scalar_read(total, made, free_coordinates(p)), type), {})));
    made_[p] = value;
  }
  if (is_output(p)) out->push_back(TileNode::of(b_.store(p, read_local(p), {})));
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
    visit(b_.expr(p).body, [&](const Scalar& s) {
      const int producer = s.kind == Scalar::Kind::kRead ? axes_.producer(s.symbol) : -1;
      if (producer >= 0 && is_row_value(producer)) work.push_back(producer);
    });
  }
  return needed;
}

TileLoop ThreadStitch::row_loop() {
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  for (const int a : row_) {
    const int64_t step = std::max<int64_t>(digits_extent(digits_[a]), 1);
    loop.dims.push_back(b_.loop_dim(a, step));
    if (step > 1) {
      var_[a] = loop.dims.back().offset;
    } else {
      var_.erase(a);
    }
  }
  return loop;
}

void ThreadStitch::emit_sweep(int level, TileBody* out) {
  const std::set<int> needed = needed_in(level);
  if (needed.empty()) return;
  emit_sweep_over(needed, level, out);
  for (const int p : needed) {
    if (reduces(p) && keeps_position(b_.expr(p))) emit_position(p, out);
  }
}

void ThreadStitch::emit_sweep_over(const std::set<int>& needed, int level, TileBody* out) {
  TileLoop loop = row_loop();
  TileBody after;
  std::vector<std::pair<int, TileSymbolId>> totals;
  for (const int p : needed) {
    const TensorExpr& e = b_.expr(p);
    if (reduces(p)) {
      const bool position = keeps_position(e);
      TileSymbolId total = -1;
      emit_carry(&loop, &after, name_of(p), position ? best_of(e) : e.combiner,
                 position ? translated(p) : scalar_convert(translated(p), e.accumulator), &total);
      totals.emplace_back(p, total);
      continue;
    }
    emit_member(p, &loop.body);
    if (is_output(p) && axes_.level[static_cast<size_t>(p)] == level) {
      loop.body.push_back(TileNode::of(b_.store(p, read_local(p), full_place(p))));
    }
  }
  out->push_back(TileNode::of(std::move(loop)));
  for (TileNode& node : after) out->push_back(std::move(node));
  for (const auto& [p, total] : totals) {
    if (keeps_position(b_.expr(p))) {
      made_[p] = total;  // the best value, until its position is known
    } else {
      finish_reduction(p, total, out);
    }
  }
}

/// A carry over the boxes of a sweep, and the reduction of what its threads hold behind the loop.
void ThreadStitch::emit_carry(TileLoop* loop, TileBody* after, const std::string& base,
                              Combiner combiner, ScalarRef contribution, TileSymbolId* result) {
  const DType type = contribution->type;
  std::vector<IndexExpr> box, behind;
  std::vector<TileVarId> reduced;
  Place place;
  for (const int a : free_) {
    if (var_.count(a) == 0) continue;
    box.push_back(b_.index(a));
    behind.push_back(b_.index(a));
    place.axes.push_back({var_.at(a), digits_.at(a)});
  }
  std::vector<IndexExpr> kept = behind;
  for (const int a : row_) {
    if (var_.count(a) == 0) continue;
    const int64_t step = digits_extent(digits_.at(a));
    box.push_back(IndexExpr::var(var_.at(a)));
    const TileVarId jj = b_.program().add_var(b_.unique("jj"), TileVar::Kind::kAxis, step);
    behind.push_back(IndexExpr::var(jj));
    reduced.push_back(jj);
    place.axes.push_back({var_.at(a), digits_.at(a)});
  }
  const TileSymbolId carry = add_value(base + "_c", type, TileSymbol::Kind::kCarry);
  TileCarry c;
  c.target = {carry, box, false};
  c.type = type;
  c.initial = scalar_constant(combiner_identity(combiner, type));
  c.place = place;
  loop->carries.push_back(c);
  TileStatement update = assign(
      carry, box, combine_scalars(combiner, scalar_read(carry, type, box), std::move(contribution)),
      place);
  update.targets[0].next = true;
  loop->body.push_back(TileNode::of(std::move(update)));
  *result = add_value(base + "_r", type);
  TileStatement total = assign(*result, kept, scalar_read(carry, type, behind), {});
  if (!reduced.empty()) {
    total.combiner = tile_combiner(combiner);
    total.reduce_axes = reduced;
  }
  after->push_back(TileNode::of(std::move(total)));
}

/// A second sweep looks for the best value.
void ThreadStitch::emit_position(int p, TileBody* out) {
  const TensorExpr& e = b_.expr(p);
  const TileSymbolId best = made_.at(p);
  TileLoop loop = row_loop();
  std::set<int> inputs;
  std::vector<int> work{p};
  while (!work.empty()) {
    const int q = work.back();
    work.pop_back();
    visit(b_.expr(q).body, [&](const Scalar& s) {
      const int producer = s.kind == Scalar::Kind::kRead ? axes_.producer(s.symbol) : -1;
      if (producer >= 0 && is_row_value(producer) && inputs.insert(producer).second)
        work.push_back(producer);
    });
  }
  for (const int q : inputs) emit_member(q, &loop.body);
  TileBody after;
  TileSymbolId total = -1;
  emit_carry(&loop, &after, name_of(p) + "_p", e.last_on_ties ? Combiner::kMax : Combiner::kMin,
             position_of(p, best), &total);
  out->push_back(TileNode::of(std::move(loop)));
  for (TileNode& node : after) out->push_back(std::move(node));
  finish_reduction(p, total, out);
}

/// Whether a thread's part of a row is small enough to stay in registers.
bool row_is_short(const GroupAxes& axes) {
  int64_t elements = 1;
  for (const GroupAxes::Axis& a : axes.axes) {
    if (a.reduced) elements *= a.extent;
    if (elements > kMostWarps * 32 * kMostHeld) return false;
  }
  return true;
}

}  // namespace

Result<ScheduledKernel> build_thread_stitch(const TensorProgram& program, const Group& group,
                                            const GroupAxes& axes, const Target& target,
                                            const std::string& name) {
  if (axes.reductions.empty() || row_is_short(axes)) {
    auto kernel = ThreadStitch(program, group, axes, target, name, true).build();
    if (!kernel.ok() || axes.reductions.empty()) return kernel;
    WEFT_ASSIGN_OR_RETURN(const ScopeAnalysis scopes, derive_scopes(kernel->program));
    if (fits(kernel->program, scopes, target)) return kernel;
  }
  return ThreadStitch(program, group, axes, target, name, false).build();
}

}  // namespace weft

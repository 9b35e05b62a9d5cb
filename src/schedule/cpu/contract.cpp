#include <algorithm>
#include <numeric>
#include <set>

#include "expr/dependence.h"
#include "group/strides.h"
#include "schedule/cpu/templates.h"
#include "schedule/writer/tile_builder.h"
#include "support/rounding.h"

namespace weft {

namespace {

/// A panel of the right operand that is packed on the fly stays below this part of the second-level
/// cache.
int64_t panel_budget(const Target& target) { return target.l2_bytes / 2; }

/// Rows and vectors of a register tile, and the time of a step along the reduction in FMA slots for
/// the whole output.
struct RegisterTileChoice {
  int64_t rows = 1, vectors = 1;
  double cost = 0;
};

/// What a register tile reads besides its panel: rows that lie `row_stride` bytes apart,
/// `row_bytes` in all.
struct RowOperand {
  int64_t row_stride = 0;
  int64_t row_bytes = 0;
  bool per_vector = false;  ///< each vector of the tile reads elements of its own
};

/// One vector FMA a slot beside one vector load or two broadcasts. Wide tiles read the row operand
/// less often, tall ones the panel; rows that fall into the same cache sets throw each other out.
/// Of an open number of rows the rest does not count: the tile stays the same for others.
RegisterTileChoice choose_register_tile(int64_t rows, bool open_rows, int64_t columns,
                                        int64_t lanes, int64_t max_vectors,
                                        const RowOperand& operand, const Target& target) {
  constexpr int64_t kSetStride = 4096;  // bytes after which first-level cache sets repeat
  constexpr int64_t kWays = 8;
  RegisterTileChoice best;
  const int64_t registers = target.vector_registers;
  const int64_t column_vectors = ceil_div(columns, lanes);
  int64_t distinct_sets = kSetStride;
  if (operand.row_stride > 0) distinct_sets = kSetStride / std::gcd(kSetStride, operand.row_stride);
  const double row_weight = operand.per_vector                        ? 0
                            : operand.row_bytes > target.l2_bytes / 2 ? 0.45
                                                                      : 0.12;
  for (int64_t v = 1; v <= std::min<int64_t>(4, max_vectors); ++v) {
    for (int64_t r = 1; r <= 14; ++r) {
      // Operands of two steps are in flight beside the accumulators.
      if (r * v > registers * 3 / 4 || r > rows || v > column_vectors) continue;
      const auto tile = [&](int64_t tr, int64_t tv) {
        const double fma = static_cast<double>(tr * tv);
        const double loads =
            (operand.per_vector ? fma : 0.5 * static_cast<double>(tr)) + static_cast<double>(tv);
        return std::max({fma, loads, 6.0});  // fewer chains than the FMA latency leave slots empty
      };
      const int64_t full_r = rows / r, rest_r = open_rows ? 0 : rows % r;
      const int64_t panels = ceil_div(column_vectors, v);  // a last panel is computed whole
      double cost = static_cast<double>(full_r * panels) * tile(r, v);
      if (open_rows) cost *= static_cast<double>(rows) / static_cast<double>(full_r * r);
      if (rest_r != 0) cost += static_cast<double>(panels) * tile(rest_r, v);
      cost *= 1.0 + row_weight / static_cast<double>(v) + 0.3 / static_cast<double>(r);
      if (ceil_div(r, distinct_sets) > kWays - 2) cost *= 1.5;
      if (best.cost == 0 || cost < best.cost) best = {r, v, cost};
    }
  }
  return best;
}

class Contract {
 public:
  Contract(const TensorProgram& program, const Group& group, const GroupAxes& axes,
           const Target& target, const std::string& name)
      : program_(program),
        group_(group),
        axes_(axes),
        target_(target),
        b_(program, group, axes, name),
        root_(axes.reductions[0]) {}

  Result<ScheduledKernel> build(const ScheduleChoices* as_chosen) {
    collect_reads();
    if (as_chosen == nullptr) {
      choose_axes();
      order_reduction();
      choose_packing();
      rows_outermost_ = rows_outermost();
    } else if (!follow(*as_chosen)) {
      return invalid_input("a contraction's choices are not those of " + b_.program().name);
    }
    TileBody body = nest();
    b_.program().body = std::move(body);
    ScheduledKernel out;
    out.choices = choices();
    out.program = std::move(b_.program());
    out.parameters = b_.take_parameters();
    out.schedule_template =
        "contract " + std::to_string(rows_) + "x" + std::to_string(vectors_ * lanes_);
    return out;
  }

 private:
  struct Read {
    const Scalar* scalar = nullptr;
    bool constant = false;
    int64_t vec_stride = 0;  ///< along the vector axis, 0 if it does not depend on it
    bool in_panels = false;  ///< a constant laid out as the loops read it
  };

  void collect_reads();
  void choose_axes();
  void choose_row_axis(const std::vector<int>& outputs);
  void order_reduction();
  void choose_packing();
  bool follow(const ScheduleChoices& choices);
  ScheduleChoices choices() const;
  int64_t reduction_depth() const;
  int64_t widest_panel() const;
  bool in_bounds(const Scalar& read) const;
  bool pack_constant(const Read& read);
  bool rows_outermost() const;
  TileBody nest();
  TileBody tile_body();
  void pack_panel(TileBody* body);
  TileLoop reduction_loop();
  void clip_bounds(TileLoop* loop, ScalarRef* body);
  void emit_epilogue(TileBody* body, const ScalarRef& total);
  Place tile_place(bool with_rows, bool with_vectors) const;
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  bool is_open(int axis) const { return axes_.axes[static_cast<size_t>(axis)].open; }
  bool depends(const Scalar& read, int axis) const {
    return stride_along(program_, axes_, root_, read, axis) != 0;
  }
  ScalarRef translated(const Scalar& read);
  ScalarRef read_scratch(const Scalar& read) const;

  const TensorProgram& program_;
  const Group& group_;
  const GroupAxes& axes_;
  const Target& target_;
  TileBuilder b_;
  int root_;

  std::vector<Read> reads_;
  std::vector<int> grid_;       ///< other output axes
  std::vector<int> reduction_;  ///< in loop order
  int row_axis_ = -1, vec_axis_ = -1;
  int64_t rows_ = 1, vectors_ = 1, lanes_ = 1;
  TileVarId row_var_ = -1, vec_var_ = -1;
  const Scalar* packed_read_ = nullptr;  ///< non-constant operand packed into scratch
  TileSymbolId panel_ = -1;
  bool predicated_ = false;
  bool rows_outermost_ = false;
};

void Contract::collect_reads() {
  visit(b_.expr(root_).body, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kRead) {
      reads_.push_back(
          {&s, program_.tensors[static_cast<size_t>(s.symbol)].kind == Tensor::Kind::kConstant});
    }
    if (s.kind == Scalar::Kind::kApply && s.op == ScalarOp::kSelect) predicated_ = true;
  });
}

void Contract::choose_axes() {
  const TensorExpr& e = b_.expr(root_);
  std::vector<int> outputs;
  for (int d = 0; d < e.output_rank(); ++d) {
    const int a = axes_.axis_of[static_cast<size_t>(root_)][static_cast<size_t>(d)];
    if (extent(a) != 1) outputs.push_back(a);
  }
  // Vector axis: contiguous in what is written, long enough to fill a vector.
  const int64_t width = target_.lanes(4);
  double best = -1e9;
  for (const int a : outputs) {
    // What is written once counts little beside what every step of the reduction reads.
    double score = 0, written = 0;
    for (size_t p = 0; p < group_.exprs.size(); ++p) {
      const int64_t stride = output_stride_along(program_, axes_, group_, static_cast<int>(p), a);
      if (stride == 1) written = 2;
    }
    score += written;
    for (const Read& r : reads_) {
      const int64_t stride = stride_along(program_, axes_, root_, *r.scalar, a);
      if (stride == 1 || (stride != 0 && r.constant)) score += 1;
      if (stride != 0 && stride != 1 && !r.constant) score -= 6;
    }
    score += 3 * std::min(1.0, static_cast<double>(extent(a)) / static_cast<double>(width));
    if (score > best) {
      best = score;
      vec_axis_ = a;
    }
  }
  lanes_ = width;
  if (vec_axis_ >= 0) {
    while (lanes_ > 4 && lanes_ / 2 >= extent(vec_axis_)) lanes_ /= 2;
  }
  choose_row_axis(outputs);
  RowOperand operand;
  for (const Read& r : reads_) {
    if (row_axis_ < 0) continue;
    if (vec_axis_ >= 0 && depends(*r.scalar, vec_axis_)) {
      operand.per_vector |= depends(*r.scalar, row_axis_);
      continue;
    }
    const int64_t element = byte_size(r.scalar->type);
    operand.row_stride =
        std::max<int64_t>(0, stride_along(program_, axes_, root_, *r.scalar, row_axis_)) * element;
    operand.row_bytes = distinct_elements(program_, e, *r.scalar) * element;
  }
  const RegisterTileChoice tile = choose_register_tile(
      row_axis_ >= 0 ? extent(row_axis_) : 1, row_axis_ >= 0 && is_open(row_axis_),
      vec_axis_ >= 0 ? extent(vec_axis_) : 1, lanes_, widest_panel(), operand, target_);
  rows_ = tile.rows;
  vectors_ = tile.vectors;
  for (const int a : outputs) {
    if (a != vec_axis_ && a != row_axis_) grid_.push_back(a);
  }
  std::sort(grid_.begin(), grid_.end(), [&](int a, int c) {
    const int64_t sa = output_stride_along(program_, axes_, group_, root_, a);
    const int64_t sc = output_stride_along(program_, axes_, group_, root_, c);
    return sa != sc ? sa > sc : a < c;
  });
}

/// Row axis: one along which an operand of the vector axis is read again; the output's next axis
/// inwards is preferred. Without such an axis rows only save loads of the other operand: a strided
/// vector operand, which is packed for one row tile after the other, does without.
void Contract::choose_row_axis(const std::vector<int>& outputs) {
  double best_row = -1;
  for (const int a : outputs) {
    if (a == vec_axis_) continue;
    bool reuses = vec_axis_ < 0, packable = true;
    for (const Read& r : reads_) {
      if (vec_axis_ < 0 || !depends(*r.scalar, vec_axis_)) continue;
      reuses |= !depends(*r.scalar, a);
      const int64_t stride = stride_along(program_, axes_, root_, *r.scalar, vec_axis_);
      packable &= r.constant || stride <= 1 || !depends(*r.scalar, a);
    }
    if (!packable) continue;
    const int64_t n = extent(a);
    double score = (reuses ? 10.0 : 1.0) + std::min<double>(static_cast<double>(n), 14) / 4;
    const int64_t stride = output_stride_along(program_, axes_, group_, root_, a);
    if (vec_axis_ >= 0 && stride == extent(vec_axis_)) score += 1;
    if (score > best_row) {
      best_row = score;
      row_axis_ = a;
    }
  }
}

void Contract::order_reduction() {
  const TensorExpr& e = b_.expr(root_);
  for (int a = e.output_rank(); a < e.axis_count(); ++a) {
    const int axis = axes_.axis_of[static_cast<size_t>(root_)][static_cast<size_t>(a)];
    if (extent(axis) != 1) reduction_.push_back(axis);
  }
  // The scalar operand's contiguous axis runs innermost.
  const auto stride = [&](int axis) {
    int64_t s = 0;
    for (const Read& r : reads_) {
      if (vec_axis_ >= 0 && depends(*r.scalar, vec_axis_) && reads_.size() > 1) continue;
      s = std::max(s, stride_along(program_, axes_, root_, *r.scalar, axis));
    }
    return s;
  };
  std::sort(reduction_.begin(), reduction_.end(), [&](int a, int c) {
    const int64_t sa = stride(a), sc = stride(c);
    return sa != sc ? sa > sc : a < c;
  });
}

/// Constant operands are laid out as the loops read them: [other axes][vector blocks][reduction in
/// loop order][vector].
bool Contract::pack_constant(const Read& read) {
  const Scalar& s = *read.scalar;
  const Tensor& tensor = program_.tensors[static_cast<size_t>(s.symbol)];
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  std::vector<int> axis_of_dim;
  for (size_t d = 0; d < s.indices.size(); ++d) {
    if (s.indices[d].is_const(0) && tensor.type.shape[d] == 1) {
      axis_of_dim.push_back(-1);
      continue;
    }
    if (!s.indices[d].is_var() || s.indices[d].var_id() >= kRuntimeIndexBase) return false;
    const int axis = own[static_cast<size_t>(s.indices[d].var_id())];
    if (extent(axis) != tensor.type.shape[d]) return false;
    axis_of_dim.push_back(axis);
  }
  const int64_t panel = vectors_ * lanes_;
  Layout layout;
  int vec_dim = -1;
  std::vector<int> order;  // dims outside the panel that are neither vector nor reduction
  for (size_t d = 0; d < axis_of_dim.size(); ++d) {
    const int a = axis_of_dim[d];
    if (a == vec_axis_) {
      vec_dim = static_cast<int>(d);
    } else if (a < 0 || std::find(reduction_.begin(), reduction_.end(), a) == reduction_.end()) {
      layout.axes.push_back({static_cast<int32_t>(d), 1, tensor.type.shape[d]});
    }
  }
  if (vec_dim < 0) return false;
  layout.axes.push_back({vec_dim, panel, ceil_div(extent(vec_axis_), panel)});
  for (const int a : reduction_) {
    for (size_t d = 0; d < axis_of_dim.size(); ++d) {
      if (axis_of_dim[d] == a) layout.axes.push_back({static_cast<int32_t>(d), 1, extent(a)});
    }
  }
  layout.axes.push_back({vec_dim, 1, panel});
  b_.set_layout(s.symbol, std::move(layout));
  return true;
}

int64_t Contract::reduction_depth() const {
  const TensorExpr& e = b_.expr(root_);
  int64_t depth = 1;
  for (const int64_t n : e.reduce_extents) depth *= n;
  return depth;
}

/// Vectors of the widest panel of a strided operand that fits the budget.
int64_t Contract::widest_panel() const {
  int64_t widest = 4;
  for (const Read& r : reads_) {
    if (r.constant || vec_axis_ < 0) continue;
    if (stride_along(program_, axes_, root_, *r.scalar, vec_axis_) <= 1) continue;
    const int64_t bytes = reduction_depth() * lanes_ * byte_size(r.scalar->type);
    widest = std::min(widest, std::max<int64_t>(1, panel_budget(target_) / bytes));
  }
  return widest;
}

/// Whether the read stays inside its tensor for all values of its axes: it may be moved out of the
/// branch that it stands in.
bool Contract::in_bounds(const Scalar& read) const {
  const TensorExpr& e = b_.expr(root_);
  const Shape& shape = program_.tensors[static_cast<size_t>(read.symbol)].type.shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Interval reach = range_of(read.indices[d], [&](int id) { return e.range(id); });
    if (reach.lo < 0 || reach.hi >= shape[d]) return false;
  }
  return true;
}

void Contract::choose_packing() {
  if (vec_axis_ < 0) return;
  for (Read& r : reads_) {
    r.vec_stride = stride_along(program_, axes_, root_, *r.scalar, vec_axis_);
    if (r.vec_stride == 0) continue;
    // A tensor read twice in different ways keeps its order.
    const bool alone = std::count_if(reads_.begin(), reads_.end(), [&](const Read& o) {
                         return o.scalar->symbol == r.scalar->symbol;
                       }) == 1;
    r.in_panels = r.constant && alone && pack_constant(r);
    if (r.in_panels) continue;
    const bool same_for_all_rows = row_axis_ < 0 || !depends(*r.scalar, row_axis_);
    if (r.vec_stride != 1 && same_for_all_rows && packed_read_ == nullptr &&
        r.scalar->operands.empty() && in_bounds(*r.scalar) &&
        reduction_depth() * vectors_ * lanes_ * byte_size(r.scalar->type) <=
            panel_budget(target_)) {
      packed_read_ = r.scalar;
    }
  }
}

ScheduleChoices Contract::choices() const {
  ScheduleChoices out;
  out.contract = true;
  out.grid = grid_;
  out.inner = reduction_;
  out.vec_axis = vec_axis_;
  out.row_axis = row_axis_;
  out.rows = rows_;
  out.vectors = vectors_;
  out.lanes = lanes_;
  out.rows_outermost = rows_outermost_;
  for (size_t r = 0; r < reads_.size(); ++r) {
    out.vec_strides.push_back(reads_[r].vec_stride);
    out.constants_in_panels.push_back(reads_[r].in_panels);
    if (packed_read_ != nullptr && reads_[r].scalar == packed_read_)
      out.packed_read = static_cast<int>(r);
  }
  return out;
}

/// False where the choices are not for these axes or reads.
bool Contract::follow(const ScheduleChoices& choices) {
  if (choices.vec_strides.size() != reads_.size() || !fits_axes(choices, axes_)) return false;
  grid_ = choices.grid;
  reduction_ = choices.inner;
  vec_axis_ = choices.vec_axis;
  row_axis_ = choices.row_axis;
  rows_ = choices.rows;
  vectors_ = choices.vectors;
  lanes_ = choices.lanes;
  rows_outermost_ = choices.rows_outermost;
  for (size_t r = 0; r < reads_.size(); ++r) {
    reads_[r].vec_stride = choices.vec_strides[r];
    reads_[r].in_panels = choices.constants_in_panels[r];
    if (reads_[r].in_panels && !pack_constant(reads_[r])) return false;
    if (choices.packed_read == static_cast<int>(r)) packed_read_ = reads_[r].scalar;
  }
  return true;
}

Place Contract::tile_place(bool with_rows, bool with_vectors) const {
  Place place;
  if (with_rows && row_var_ >= 0) place.axes.push_back(place_of(row_var_, rows_, 1).axes[0]);
  if (with_vectors && vec_var_ >= 0)
    place.axes.push_back(place_of(vec_var_, vectors_, lanes_).axes[0]);
  return place;
}

/// Whether all of the vector operand stays in the second-level cache while the rows go by: then
/// threads divide the rows, so that what a thread writes is what it reads in the next kernel, and
/// the row operand is read once. A larger operand is walked a panel at a time, each for all rows.
/// Of an open number of rows it is supposed that they are many.
bool Contract::rows_outermost() const {
  if (packed_read_ != nullptr || vec_axis_ < 0) return false;
  int64_t panels = 0, rows = 0;
  for (const Read& r : reads_) {
    const int64_t bytes =
        distinct_elements(program_, b_.expr(root_), *r.scalar) * byte_size(r.scalar->type);
    (r.vec_stride != 0 ? panels : rows) += bytes;
  }
  const bool many_rows = rows > panels || (row_axis_ >= 0 && is_open(row_axis_));
  return panels <= panel_budget(target_) && many_rows;
}

/// grid others { grid vector panels { [pack the panel] grid row tiles { tile } } }, or
/// grid others { grid row tiles { grid vector panels { tile } } } where `rows_outermost`
TileBody Contract::nest() {
  TileLoop outer;
  outer.kind = TileLoop::Kind::kGrid;
  // Axes that the vector operand does not depend on run inside its panel, so that the panel stays
  // in cache.
  std::vector<int> outside, inside;
  for (const int a : grid_) {
    bool operand_changes = false;
    for (const Read& r : reads_) operand_changes |= r.vec_stride != 0 && depends(*r.scalar, a);
    (operand_changes ? outside : inside).push_back(a);
  }
  const bool rows_first = rows_outermost_;
  for (const int a : outside) outer.dims.push_back(b_.loop_dim(a, 1));
  const auto add_panels = [&] {
    if (vec_axis_ < 0) return;
    outer.dims.push_back(b_.loop_dim(vec_axis_, vectors_ * lanes_));
    vec_var_ = outer.dims.back().offset;
  };
  if (!rows_first) add_panels();
  TileLoop inner;
  inner.kind = TileLoop::Kind::kGrid;
  TileLoop& last = packed_read_ != nullptr ? inner : outer;
  if (packed_read_ != nullptr) pack_panel(&outer.body);
  for (const int a : inside) last.dims.push_back(b_.loop_dim(a, 1));
  if (row_axis_ >= 0) {
    last.dims.push_back(b_.loop_dim(row_axis_, rows_));
    row_var_ = last.dims.back().offset;
  }
  if (rows_first) add_panels();
  last.body = tile_body();
  if (packed_read_ != nullptr) {
    if (inner.dims.empty()) {
      for (TileNode& n : inner.body) outer.body.push_back(std::move(n));
    } else {
      outer.body.push_back(TileNode::of(std::move(inner)));
    }
  }
  return b_.one_nest(std::move(outer));
}

/// The vector operand's panel in scratch, [reduction][vector]: read across its rows, a vector of
/// the innermost axis at a time.
void Contract::pack_panel(TileBody* body) {
  const Scalar& read = *packed_read_;
  TileSymbol symbol;
  symbol.name = b_.unique("panel");
  symbol.kind = TileSymbol::Kind::kValue;
  symbol.type = read.type;
  panel_ = b_.program().add_symbol(std::move(symbol));
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  Place place = place_of(vec_var_, vectors_, lanes_);
  std::vector<IndexExpr> coordinates;
  for (const int a : reduction_) {
    const bool contiguous = stride_along(program_, axes_, root_, read, a) == 1;
    loop.dims.push_back(b_.loop_dim(a, contiguous ? lanes_ : 1));
    if (contiguous)
      place.axes.insert(place.axes.begin(), place_of(loop.dims.back().offset, lanes_, 1).axes[0]);
    coordinates.push_back(b_.index(a));
  }
  coordinates.push_back(b_.index(vec_axis_));
  TileStatement st;
  st.targets.push_back({panel_, std::move(coordinates), false});
  st.value = translated(read);
  st.demand = Scope::kBlock;
  st.place = std::move(place);
  loop.body.push_back(TileNode::of(std::move(st)));
  if (loop.dims.empty()) {
    body->push_back(std::move(loop.body[0]));
  } else {
    body->push_back(TileNode::of(std::move(loop)));
  }
}

/// A read of the reduction's body at the present indices.
ScalarRef Contract::translated(const Scalar& read) {
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  auto copy = std::make_shared<Scalar>(read);
  for (IndexExpr& i : copy->indices) {
    i = substitute(i, [&](int v) { return b_.index(own[static_cast<size_t>(v)]); });
  }
  copy->symbol = b_.input(read.symbol);
  return copy;
}

ScalarRef Contract::read_scratch(const Scalar& read) const {
  std::vector<IndexExpr> coordinates;
  for (const int a : reduction_) coordinates.push_back(b_.index(a));
  coordinates.push_back(b_.index(vec_axis_));
  return scalar_read(panel_, read.type, std::move(coordinates));
}

TileLoop Contract::reduction_loop() {
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  // A vector across groups takes all of a group's channels from one load, once they are written
  // out.
  const bool permuted =
      std::any_of(reads_.begin(), reads_.end(), [](const Read& r) { return r.vec_stride < 0; });
  for (size_t i = 0; i < reduction_.size(); ++i) {
    const int a = reduction_[i];
    TileLoop::Dim dim = b_.loop_dim(a, 1);
    const bool innermost = i + 1 == reduction_.size();
    // A predicate that a window axis enters is decided where the axis is written out.
    if (predicated_ && extent(a) <= 8 && !innermost) dim.unroll = 0;
    if (innermost) dim.unroll = rows_ * vectors_ >= 16 ? 2 : 4;
    if (innermost && permuted && extent(a) <= lanes_) dim.unroll = 0;
    loop.dims.push_back(dim);
  }
  return loop;
}

/// Conjuncts of a boolean.
void conjuncts(const ScalarRef& s, std::vector<ScalarRef>* out) {
  if (s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kAnd) {
    conjuncts(s->operands[0], out);
    conjuncts(s->operands[1], out);
  } else {
    out->push_back(s);
  }
}

/// A predicate `0 <= h + kh - p < H` that involves a reduction axis once and else only axes of
/// single steps becomes bounds of that axis: what it excludes contributes nothing. Holds for
/// `predicate ? x : identity`, alone or as a factor of a sum.
void Contract::clip_bounds(TileLoop* loop, ScalarRef* body) {
  const TensorExpr& e = b_.expr(root_);
  const ScalarValue identity = combiner_identity(e.combiner, (*body)->type);
  std::set<int> single;  // variables without offsets: loop origins of step 1
  const auto clip = [&](const ScalarRef& select, const ScalarValue& excluded) -> ScalarRef {
    if (select->kind != Scalar::Kind::kApply || select->op != ScalarOp::kSelect) return select;
    const ScalarRef& other = select->operands[2];
    if (other->kind != Scalar::Kind::kConstant || other->value.f != excluded.f ||
        other->value.i != excluded.i)
      return select;
    std::vector<ScalarRef> parts, rest;
    conjuncts(select->operands[0], &parts);
    for (const ScalarRef& part : parts) {
      bool bound = false;
      if (part->kind == Scalar::Kind::kApply && scalar_op_is_comparison(part->op) &&
          part->operands[0]->kind == Scalar::Kind::kIndex &&
          part->operands[1]->kind == Scalar::Kind::kConstant) {
        AffineForm form;
        const int64_t limit = part->operands[1]->value.i;
        const bool lower = part->op == ScalarOp::kGe || part->op == ScalarOp::kGt;
        const bool upper = part->op == ScalarOp::kLt || part->op == ScalarOp::kLe;
        if ((lower || upper) && as_affine(part->operands[0]->index, &form)) {
          for (TileLoop::Dim& dim : loop->dims) {
            if (form.coefficient(dim.origin) != 1) continue;
            IndexExpr others = form.constant;
            bool plain = true;
            for (const auto& [var, c] : form.terms) {
              if (var == dim.origin) continue;
              plain &= b_.program().vars[static_cast<size_t>(var)].kind == TileVar::Kind::kOrigin;
              for (const TileLoop::Dim& d : loop->dims) plain &= d.origin != var;
              // An origin with an offset beside it is a tile: undecided within.
              for (const auto& [o, k] : form.terms) {
                plain &= b_.program().vars[static_cast<size_t>(o)].kind != TileVar::Kind::kOffset;
                (void)k;
              }
              others = others + IndexExpr::var(var) * c;
            }
            if (!plain || form.terms.size() < 2) break;
            if (lower) {
              dim.begin =
                  max(dim.begin, IndexExpr(limit + (part->op == ScalarOp::kGt ? 1 : 0)) - others);
            } else {
              dim.end =
                  min(dim.end, IndexExpr(limit + (part->op == ScalarOp::kLe ? 1 : 0)) - others);
            }
            dim.unroll = 1;
            bound = true;
            break;
          }
        }
      }
      if (!bound) rest.push_back(part);
    }
    if (rest.size() == parts.size()) return select;
    if (rest.empty()) return select->operands[1];
    ScalarRef condition = rest[0];
    for (size_t i = 1; i < rest.size(); ++i)
      condition = scalar_apply(ScalarOp::kAnd, {condition, rest[i]}, DType::kBool);
    return scalar_apply(ScalarOp::kSelect, {condition, select->operands[1], other}, select->type);
  };
  const ScalarRef& b = *body;
  if (b->kind != Scalar::Kind::kApply) return;
  if (b->op == ScalarOp::kSelect) {
    *body = clip(b, identity);
  } else if (b->op == ScalarOp::kMul && e.combiner == Combiner::kSum) {
    ScalarValue zero = is_float(b->type) ? float_value(b->type, 0) : int_value(b->type, 0);
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const ScalarRef factor = clip(b->operands[k], zero);
      if (factor == b->operands[k]) continue;
      std::vector<ScalarRef> operands = b->operands;
      operands[k] = factor;
      *body = scalar_apply(ScalarOp::kMul, std::move(operands), b->type);
      break;
    }
  }
}

TileBody Contract::tile_body() {
  TileBody body;
  const TensorExpr& e = b_.expr(root_);
  const DType acc = e.accumulator;
  TileSymbol symbol;
  symbol.name = b_.unique("acc");
  symbol.kind = TileSymbol::Kind::kCarry;
  symbol.type = acc;
  const TileSymbolId carry = b_.program().add_symbol(std::move(symbol));
  std::vector<IndexExpr> box;
  if (row_axis_ >= 0) box.push_back(b_.index(row_axis_));
  if (vec_axis_ >= 0) box.push_back(b_.index(vec_axis_));
  const Place place = tile_place(true, true);

  TileLoop loop = reduction_loop();
  TileCarry c;
  c.target.symbol = carry;
  c.target.indices = box;
  c.type = acc;
  c.initial = scalar_constant(combiner_identity(e.combiner, acc));
  c.place = place;
  loop.carries.push_back(c);
  ScalarRef product = scalar_convert(
      b_.translate(root_,
                   [](int, const Scalar&) -> ScalarRef {
                     throw_internal_error(__FILE__, __LINE__, "contract",
                                          "the reduction reads a member of its group");
                   }),
      acc);
  if (packed_read_ != nullptr) {
    const ScalarRef packed = translated(*packed_read_);
    product = rewrite(
        product, [](int v) { return IndexExpr::var(v); },
        [&](const ScalarRef& r) { return equal(r, packed) ? read_scratch(*r) : r; });
  }
  clip_bounds(&loop, &product);
  TileStatement update;
  update.targets.push_back({carry, box, true});
  update.value = combine_scalars(e.combiner, scalar_read(carry, acc, box), product);
  update.place = place;
  loop.body.push_back(TileNode::of(std::move(update)));
  body.push_back(TileNode::of(std::move(loop)));
  emit_epilogue(&body, scalar_read(carry, acc, box));
  return body;
}

void Contract::emit_epilogue(TileBody* body, const ScalarRef& total) {
  const Place place = tile_place(true, true);
  std::map<int, ScalarRef> values;
  for (size_t i = 0; i < group_.exprs.size(); ++i) {
    const int p = static_cast<int>(i);
    const TensorExpr& e = b_.expr(p);
    const DType type = program_.tensors[static_cast<size_t>(e.output)].type.dtype;
    ScalarRef value =
        p == root_
            ? scalar_convert(total, type)
            : b_.translate(p, [&](int producer, const Scalar&) { return values.at(producer); });
    std::vector<IndexExpr> box;
    bool rows = false, vectors = false;
    const auto& own = axes_.axis_of[i];
    if (row_axis_ >= 0 && std::find(own.begin(), own.end(), row_axis_) != own.end()) {
      box.push_back(b_.index(row_axis_));
      rows = true;
    }
    if (vec_axis_ >= 0 && std::find(own.begin(), own.end(), vec_axis_) != own.end()) {
      box.push_back(b_.index(vec_axis_));
      vectors = true;
    }
    TileSymbol symbol;
    symbol.name = b_.unique(program_.tensors[static_cast<size_t>(e.output)].name + "_v");
    symbol.kind = TileSymbol::Kind::kValue;
    symbol.type = type;
    const TileSymbolId id = b_.program().add_symbol(std::move(symbol));
    TileStatement st;
    st.targets.push_back({id, box, false});
    st.value = std::move(value);
    st.place = tile_place(rows, vectors);
    body->push_back(TileNode::of(std::move(st)));
    values[p] = scalar_read(id, type, box);
    if (std::find(group_.outputs.begin(), group_.outputs.end(), e.output) != group_.outputs.end()) {
      body->push_back(TileNode::of(b_.store(p, values[p], place)));
    }
  }
}

}  // namespace

Decision contract_applies(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                          const Target& target) {
  (void)target;
  const auto name = [&](size_t p) {
    return program
        .tensors[static_cast<size_t>(program.exprs[static_cast<size_t>(group.exprs[p])].output)]
        .name;
  };
  if (axes.reductions.size() != 1)
    return Decision::forbid("a contraction's kernel holds one reduction, not " +
                            std::to_string(axes.reductions.size()));
  const auto root = static_cast<size_t>(axes.reductions[0]);
  const TensorExpr& e = program.exprs[static_cast<size_t>(group.exprs[root])];
  if (e.combiner == Combiner::kArgMax || e.combiner == Combiner::kArgMin)
    return Decision::forbid(name(root) + " keeps positions");
  std::set<int> space;
  for (int d = 0; d < e.output_rank(); ++d)
    space.insert(axes.axis_of[root][static_cast<size_t>(d)]);
  std::string trouble;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kRead && axes.producer(s.symbol) >= 0) {
      trouble = name(root) + " would compute " +
                name(static_cast<size_t>(axes.producer(s.symbol))) +
                " again for each of its outputs";
    }
  });
  if (!trouble.empty()) return Decision::forbid(trouble);
  for (size_t p = 0; p < group.exprs.size(); ++p) {
    if (p == root) continue;
    const TensorExpr& member = program.exprs[static_cast<size_t>(group.exprs[p])];
    for (size_t a = 0; a < axes.axis_of[p].size(); ++a) {
      const int axis = axes.axis_of[p][a];
      if (axes.axes[static_cast<size_t>(axis)].extent > 1 && space.count(axis) == 0) {
        return Decision::forbid(name(p) + " runs along an axis that " + name(root) +
                                " does not have");
      }
    }
    const bool stored =
        std::find(group.outputs.begin(), group.outputs.end(), member.output) != group.outputs.end();
    for (const int axis : space) {
      const auto& own = axes.axis_of[p];
      if (stored && axes.axes[static_cast<size_t>(axis)].extent > 1 &&
          std::find(own.begin(), own.end(), axis) == own.end()) {
        return Decision::forbid(name(p) + " must reach memory but lacks an axis of " + name(root));
      }
    }
  }
  return Decision::allow();
}

Result<ScheduledKernel> build_contract(const TensorProgram& program, const Group& group,
                                       const GroupAxes& axes, const Target& target,
                                       const std::string& name, const ScheduleChoices* as_chosen) {
  return Contract(program, group, axes, target, name).build(as_chosen);
}

}  // namespace weft

#include <algorithm>
#include <bit>

#include "expr/dependence.h"
#include "group/strides.h"
#include "schedule/gpu/templates.h"
#include "schedule/writer/tile_builder.h"
#include "support/rounding.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

constexpr int64_t kDepth = 8;     ///< of the tiles of both operands in shared memory
constexpr int64_t kMostRows = 8;  ///< rows of results in one thread's registers
constexpr int64_t kOtherRegisters = 64;
constexpr int64_t kMostWarps = 8;
constexpr int64_t kColumnLanes = 8;

/// The contraction template on the plain cores of a GPU: a tile of rows x columns of results in
/// each thread's registers. Where both operands are plain reads along one reduction axis, the block
/// passes through them in tiles of shared memory; else every thread reads what it needs.
class ThreadContract {
 public:
  ThreadContract(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                 const Target& target, const std::string& name)
      : program_(program),
        group_(group),
        axes_(axes),
        target_(target),
        b_(program, group, axes, name),
        root_(axes.reductions[0]) {}

  Result<ScheduledKernel> build() {
    visit(b_.expr(root_).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) reads_.push_back(&s);
    });
    choose_axes();
    choose_tile();
    find_operands();
    TileLoop grid;
    grid.kind = TileLoop::Kind::kGrid;
    int64_t items = 1;
    const auto add = [&](int axis, int64_t step, TileVarId* var) {
      grid.dims.push_back(b_.loop_dim(axis, step));
      if (var != nullptr) *var = grid.dims.back().offset;
      items *= ceil_div(extent(axis), step);
    };
    for (const int a : others_) add(a, 1, nullptr);
    if (row_axis_ >= 0) add(row_axis_, digits_extent(row_digits_), &row_var_);
    if (column_axis_ >= 0) add(column_axis_, digits_extent(column_digits_), &column_var_);
    grid.body = tile_body();
    b_.program().body = b_.one_nest(std::move(grid));
    b_.program().cpu = false;
    b_.program().blocks = items;
    b_.program().warps = warps_;
    ScheduledKernel out;
    out.program = std::move(b_.program());
    out.parameters = b_.take_parameters();
    out.schedule_template =
        std::string(left_ != nullptr ? "contract in shared tiles " : "contract ") +
        std::to_string(digits_extent(row_digits_)) + "x" +
        std::to_string(digits_extent(column_digits_));
    return out;
  }

 private:
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  bool depends(const Scalar& read, int axis) const {
    return stride_along(program_, axes_, root_, read, axis) != 0;
  }

  void choose_axes();
  int64_t registers_of(int64_t rows, int64_t columns) const;
  void choose_tile();
  void find_operands();
  TileBody tile_body();
  TileLoop direct_loop(TileSymbolId acc, const std::vector<IndexExpr>& box);
  TileLoop shared_loop(TileSymbolId acc, const std::vector<IndexExpr>& box);
  TileSymbolId load_operand(const Scalar& read, int axis, TileVarId var, const TileLoop::Dim& depth,
                            const std::string& name, TileBody* body);
  void emit_epilogue(TileBody* body, const ScalarRef& total);
  Place place(bool rows, bool columns) const;
  TileSymbolId add_symbol(const std::string& name, TileSymbol::Kind kind, DType type) {
    TileSymbol symbol;
    symbol.name = b_.unique(name);
    symbol.kind = kind;
    symbol.type = type;
    return b_.program().add_symbol(std::move(symbol));
  }
  TileCarry carry_of(TileSymbolId symbol, const std::vector<IndexExpr>& box, ScalarRef initial) {
    TileCarry carry;
    carry.target = {symbol, box, false};
    carry.type = b_.program().symbols[static_cast<size_t>(symbol)].type;
    carry.initial = std::move(initial);
    carry.place = place(true, true);
    return carry;
  }
  TileNode update(TileSymbolId symbol, const std::vector<IndexExpr>& box, ScalarRef value) {
    TileStatement st;
    st.targets.push_back({symbol, box, true});
    st.value = std::move(value);
    st.place = place(true, true);
    return TileNode::of(std::move(st));
  }

  const TensorProgram& program_;
  const Group& group_;
  const GroupAxes& axes_;
  const Target& target_;
  TileBuilder b_;
  int root_;

  std::vector<const Scalar*> reads_;
  std::vector<int> others_;     ///< output axes of single steps
  std::vector<int> reduction_;  ///< in loop order
  int row_axis_ = -1, column_axis_ = -1;
  std::vector<Place::Digit> row_digits_, column_digits_;
  TileVarId row_var_ = -1, column_var_ = -1;
  int64_t warps_ = 1;
  const Scalar *left_ = nullptr, *right_ = nullptr;  ///< operands that go through shared memory
};

void ThreadContract::choose_axes() {
  const TensorExpr& e = b_.expr(root_);
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  std::vector<int> outputs;
  for (int d = 0; d < e.output_rank(); ++d) {
    const int a = own[static_cast<size_t>(d)];
    if (extent(a) != 1) outputs.push_back(a);
  }
  // Columns: what is written, and read, one element after another.
  double best = 0;
  for (const int a : outputs) {
    double score = std::min<double>(static_cast<double>(extent(a)), 32) / 16;
    for (size_t p = 0; p < group_.exprs.size(); ++p) {
      if (output_stride_along(program_, axes_, group_, static_cast<int>(p), a) == 1) score += 2;
    }
    for (const Scalar* r : reads_) {
      const int64_t stride = stride_along(program_, axes_, root_, *r, a);
      if (stride == 1) score += 1;
      if (stride > 1 || stride < 0) score -= 2;
    }
    if (column_axis_ < 0 || score > best) {
      best = score;
      column_axis_ = a;
    }
  }
  // Rows: an axis along which what the columns read is read again.
  double best_row = 0;
  for (const int a : outputs) {
    if (a == column_axis_) continue;
    bool reuses = false;
    for (const Scalar* r : reads_) reuses |= depends(*r, column_axis_) && !depends(*r, a);
    const double score =
        (reuses ? 100.0 : 0.0) + std::min<double>(static_cast<double>(extent(a)), 64);
    if (row_axis_ < 0 || score > best_row) {
      best_row = score;
      row_axis_ = a;
    }
  }
  for (const int a : outputs) {
    if (a != column_axis_ && a != row_axis_) others_.push_back(a);
  }
  for (int a = e.output_rank(); a < e.axis_count(); ++a) {
    const int axis = own[static_cast<size_t>(a)];
    if (extent(axis) != 1) reduction_.push_back(axis);
  }
  const auto stride = [&](int axis) {
    int64_t s = 0;
    for (const Scalar* r : reads_) s = std::max(s, stride_along(program_, axes_, root_, *r, axis));
    return s;
  };
  std::sort(reduction_.begin(), reduction_.end(), [&](int a, int c) {
    const int64_t sa = stride(a), sc = stride(c);
    return sa != sc ? sa > sc : a < c;
  });
}

/// Results, operands on their way, and addresses. Windows are written out by the compiler, which
/// loads about half of what they read ahead.
int64_t ThreadContract::registers_of(int64_t rows, int64_t columns) const {
  constexpr int64_t kMostWrittenOut = 32;
  int64_t trips = 1;
  for (const int a : reduction_) trips *= extent(a);
  int64_t loaded = 0;
  for (const Scalar* r : reads_) {
    const auto along = [&](int axis, int64_t n) {
      return axis >= 0 && stride_along(program_, axes_, root_, *r, axis) != 0 ? n : 1;
    };
    loaded += along(row_axis_, rows) * along(column_axis_, columns);
  }
  const int64_t ahead = trips <= kMostWrittenOut ? ceil_div(loaded * trips, 2) : 0;
  return rows * columns + std::max(rows * columns, ahead) + kOtherRegisters;
}

/// The largest tile that still gives every SM a block.
void ThreadContract::choose_tile() {
  const int64_t columns = column_axis_ >= 0 ? extent(column_axis_) : 1;
  const int64_t rows = row_axis_ >= 0 ? extent(row_axis_) : 1;
  const int64_t vec = access_elements(columns, 4, false);
  const int64_t column_lanes = std::min(kColumnLanes, power_above(ceil_div(columns, vec)));
  const int64_t row_lanes = std::min(32 / column_lanes, power_above(rows));
  int64_t others = 1;
  for (const int a : others_) others *= extent(a);
  int64_t best_warps = 1, best_rows = 1, best_columns = 1;
  double best = -1;
  for (int64_t warps = 1; warps <= kMostWarps; warps *= 2) {
    for (int64_t r = 1; r <= kMostRows; r *= 2) {
      for (int64_t c = 1; c * vec <= 8; c *= 2) {
        const int64_t tile_rows = warps * row_lanes * r, tile_columns = c * column_lanes * vec;
        const bool wasteful =
            (r * warps > 1 && tile_rows >= 2 * rows) || (c > 1 && tile_columns >= 2 * columns);
        const bool spills = registers_of(r, c * vec) > target_.registers_per_thread;
        if (wasteful || spills) continue;
        const int64_t blocks = others * ceil_div(rows, tile_rows) * ceil_div(columns, tile_columns);
        const double waves = static_cast<double>(blocks * warps) / (4.0 * target_.sm_count);
        // Loads an FMA, and how much of the machine has work.
        const double loads = 1.0 / static_cast<double>(r) + 1.0 / static_cast<double>(c * vec);
        const double shared =
            1.0 / static_cast<double>(tile_rows) + 1.0 / static_cast<double>(tile_columns);
        const double score = std::min(1.0, waves) / (0.25 + loads + 4 * shared);
        if (score > best) {
          best = score;
          best_warps = warps;
          best_rows = r;
          best_columns = c;
        }
      }
    }
  }
  const auto add = [](std::vector<Place::Digit>* digits, PlaceLevel level, int64_t n) {
    if (n > 1) digits->push_back({level, n});
  };
  add(&row_digits_, PlaceLevel::kWarp, best_warps);
  add(&row_digits_, PlaceLevel::kLane, row_lanes);
  add(&row_digits_, PlaceLevel::kReg, best_rows);
  add(&column_digits_, PlaceLevel::kReg, best_columns);
  add(&column_digits_, PlaceLevel::kLane, column_lanes);
  add(&column_digits_, PlaceLevel::kVec, vec);
  if (row_axis_ < 0) row_digits_.clear();
  warps_ = row_axis_ < 0 ? 1 : best_warps;
}

/// Two plain reads along one reduction axis, one with the rows and one with the columns.
void ThreadContract::find_operands() {
  const ScalarRef& body = b_.expr(root_).body;
  if (reads_.size() != 2 || reduction_.size() != 1 || row_axis_ < 0 || column_axis_ < 0) return;
  if (digits_extent(row_digits_) == 1 || digits_extent(column_digits_) == 1) return;
  if (extent(reduction_[0]) < kDepth || body->kind != Scalar::Kind::kApply ||
      body->op != ScalarOp::kMul)
    return;
  for (const Scalar* r : reads_) {
    const bool plain = r->operands.empty() && !r->fill &&
                       std::all_of(r->indices.begin(), r->indices.end(), [](const IndexExpr& i) {
                         return i.is_const() || (i.is_var() && i.var_id() < kRuntimeIndexBase);
                       });
    if (!plain || !depends(*r, reduction_[0])) return;
  }
  bool predicated = false;
  visit(body, [&](const Scalar& s) {
    predicated |=
        s.kind == Scalar::Kind::kApply && s.op != ScalarOp::kMul && s.op != ScalarOp::kConvert;
  });
  if (predicated) return;
  for (const Scalar* r : reads_) {
    const bool rows = depends(*r, row_axis_), columns = depends(*r, column_axis_);
    if (rows && !columns) left_ = r;
    if (columns && !rows) right_ = r;
  }
  if (left_ == nullptr || right_ == nullptr) left_ = right_ = nullptr;
}

Place ThreadContract::place(bool rows, bool columns) const {
  Place out;
  if (rows && row_var_ >= 0) out.axes.push_back({row_var_, row_digits_});
  if (columns && column_var_ >= 0) out.axes.push_back({column_var_, column_digits_});
  // Without one of its axes the box has copies; the place is then that of what is read.
  const bool whole = (row_var_ < 0 || rows) && (column_var_ < 0 || columns);
  return whole ? out : Place{};
}

TileLoop ThreadContract::direct_loop(TileSymbolId acc, const std::vector<IndexExpr>& box) {
  const TensorExpr& e = b_.expr(root_);
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  for (const int a : reduction_) loop.dims.push_back(b_.loop_dim(a, 1));
  const ScalarRef product = scalar_convert(
      b_.translate(root_,
                   [](int, const Scalar&) -> ScalarRef {
                     throw_internal_error(__FILE__, __LINE__, "contract",
                                          "the reduction reads a member of its group");
                   }),
      e.accumulator);
  loop.carries.push_back(
      carry_of(acc, box, scalar_constant(combiner_identity(e.combiner, e.accumulator))));
  loop.body.push_back(
      update(acc, box, combine_scalars(e.combiner, scalar_read(acc, e.accumulator, box), product)));
  return loop;
}

/// A tile of an operand in shared memory, [depth][rows or columns]: loaded along the axis on which
/// it lies one element after another.
TileSymbolId ThreadContract::load_operand(const Scalar& read, int axis, TileVarId var,
                                          const TileLoop::Dim& depth, const std::string& name,
                                          TileBody* body) {
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  const int k = reduction_[0];
  const TileSymbolId symbol = add_symbol(name, TileSymbol::Kind::kValue, read.type);
  const bool along_depth = stride_along(program_, axes_, root_, read, k) == 1;
  const int64_t width = b_.program().vars[static_cast<size_t>(var)].extent;
  ThreadTile tile(warps_);
  const int inner = along_depth ? k : axis;
  const int64_t inner_extent = along_depth ? kDepth : width;
  const bool contiguous = stride_along(program_, axes_, root_, read, inner) == 1;
  int64_t vec = contiguous ? access_elements(extent(inner), byte_size(read.type), false) : 1;
  vec = std::min(vec, inner_extent);
  Place where;
  const auto first = tile.add(inner_extent, vec, 32, warps_, 0);
  const auto second = tile.add(along_depth ? width : kDepth, 1, 32, warps_, 0);
  where.axes.push_back({depth.offset, along_depth ? first : second});
  where.axes.push_back({var, along_depth ? second : first});
  for (Place::Axis& a : where.axes) {
    if (a.digits.empty()) a.digits.push_back({PlaceLevel::kReg, 1});
  }
  // The axis that is written last has the fastest threads.
  if (along_depth) std::swap(where.axes[0], where.axes[1]);
  auto copy = std::make_shared<Scalar>(read);
  for (IndexExpr& i : copy->indices) {
    i = substitute(i, [&](int v) { return b_.index(own[static_cast<size_t>(v)]); });
  }
  copy->symbol = b_.input(read.symbol);
  TileStatement st;
  st.targets.push_back({symbol, {b_.index(k), b_.index(axis)}, false});
  st.value = std::move(copy);
  st.demand = Scope::kBlock;
  st.place = std::move(where);
  body->push_back(TileNode::of(std::move(st)));
  return symbol;
}

/// seq k step 8 { tiles of both operands; seq q in 8 { t' = t + A[k+q,m] * B[k+q,n] } acc' = t }
TileLoop ThreadContract::shared_loop(TileSymbolId acc, const std::vector<IndexExpr>& box) {
  const TensorExpr& e = b_.expr(root_);
  const int k = reduction_[0];
  const DType type = e.accumulator;
  TileLoop outer;
  outer.kind = TileLoop::Kind::kSeq;
  const TileLoop::Dim depth = b_.loop_dim(k, kDepth);
  outer.dims.push_back(depth);
  outer.carries.push_back(carry_of(acc, box, scalar_constant(combiner_identity(e.combiner, type))));
  const TileSymbolId left = load_operand(*left_, row_axis_, row_var_, depth, "left", &outer.body);
  const TileSymbolId right =
      load_operand(*right_, column_axis_, column_var_, depth, "right", &outer.body);

  TileLoop inner;
  inner.kind = TileLoop::Kind::kSeq;
  TileLoop::Dim step;
  step.origin = b_.program().add_var(b_.unique("q"), TileVar::Kind::kOrigin, 0);
  step.begin = 0;
  const IndexExpr origin = IndexExpr::var(depth.origin);
  step.end = extent(k) % kDepth == 0 ? IndexExpr(kDepth)
                                     : min(IndexExpr(kDepth), IndexExpr(extent(k)) - origin);
  step.unroll = 0;
  inner.dims.push_back(step);
  const TileSymbolId partial = add_symbol("part", TileSymbol::Kind::kCarry, type);
  inner.carries.push_back(carry_of(partial, box, scalar_read(acc, type, box)));
  const IndexExpr at = origin + IndexExpr::var(step.origin);
  const auto from_tile = [&](const ScalarRef& r) {
    const bool is_left = r.get() == left_;
    return scalar_read(is_left ? left : right, r->type,
                       {at, b_.index(is_left ? row_axis_ : column_axis_)});
  };
  const ScalarRef product = scalar_convert(rewrite(
                                               e.body, [](int v) { return IndexExpr::var(v); },
                                               [&](const ScalarRef& r) { return from_tile(r); }),
                                           type);
  inner.body.push_back(
      update(partial, box, combine_scalars(e.combiner, scalar_read(partial, type, box), product)));
  outer.body.push_back(TileNode::of(std::move(inner)));
  outer.body.push_back(update(acc, box, scalar_read(partial, type, box)));
  return outer;
}

TileBody ThreadContract::tile_body() {
  TileBody body;
  const DType type = b_.expr(root_).accumulator;
  std::vector<IndexExpr> box;
  if (row_var_ >= 0) box.push_back(b_.index(row_axis_));
  if (column_var_ >= 0) box.push_back(b_.index(column_axis_));
  const TileSymbolId acc = add_symbol("acc", TileSymbol::Kind::kCarry, type);
  body.push_back(TileNode::of(left_ != nullptr ? shared_loop(acc, box) : direct_loop(acc, box)));
  emit_epilogue(&body, scalar_read(acc, type, box));
  return body;
}

void ThreadContract::emit_epilogue(TileBody* body, const ScalarRef& total) {
  std::map<int, ScalarRef> values;
  for (size_t i = 0; i < group_.exprs.size(); ++i) {
    const int p = static_cast<int>(i);
    const TensorExpr& e = b_.expr(p);
    const DType type = program_.tensors[static_cast<size_t>(e.output)].type.dtype;
    const ScalarRef value =
        p == root_
            ? scalar_convert(total, type)
            : b_.translate(p, [&](int producer, const Scalar&) { return values.at(producer); });
    const auto& own = axes_.axis_of[i];
    const auto has = [&](int axis) { return std::find(own.begin(), own.end(), axis) != own.end(); };
    const bool rows = row_var_ >= 0 && has(row_axis_);
    const bool columns = column_var_ >= 0 && has(column_axis_);
    std::vector<IndexExpr> box;
    if (rows) box.push_back(b_.index(row_axis_));
    if (columns) box.push_back(b_.index(column_axis_));
    const TileSymbolId id = add_symbol(program_.tensors[static_cast<size_t>(e.output)].name + "_v",
                                       TileSymbol::Kind::kValue, type);
    TileStatement st;
    st.targets.push_back({id, box, false});
    st.value = value;
    st.place = place(rows, columns);
    body->push_back(TileNode::of(std::move(st)));
    values[p] = scalar_read(id, type, box);
    if (std::find(group_.outputs.begin(), group_.outputs.end(), e.output) != group_.outputs.end()) {
      body->push_back(TileNode::of(b_.store(p, values[p], place(rows, columns))));
    }
  }
}

}  // namespace

Result<ScheduledKernel> build_thread_contract(const TensorProgram& program, const Group& group,
                                              const GroupAxes& axes, const Target& target,
                                              const std::string& name) {
  if (auto on_units = build_matrix_contract(program, group, axes, target, name)) {
    return std::move(*on_units);
  }
  return ThreadContract(program, group, axes, target, name).build();
}

}  // namespace weft

#include "schedule/gpu/thread_contract.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "group/strides.h"
#include "schedule/gpu/check_choice.h"
#include "schedule/gpu/choose_thread_tile.h"
#include "schedule/gpu/product_factor.h"
#include "schedule/gpu/window_factor.h"
#include "schedule/writer/epilogue.h"
#include "schedule/writer/one_reduction.h"
#include "schedule/writer/statements.h"
#include "schedule/writer/tile_builder.h"
#include "support/check.h"
#include "support/rounding.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

/// Elements of a thread's place.
int64_t of_thread(const std::vector<Place::Digit>& digits) {
  int64_t n = 1;
  for (const Place::Digit& d : digits) {
    if (d.level == PlaceLevel::kReg || d.level == PlaceLevel::kVec) n *= d.extent;
  }
  return n;
}

/// The contraction template on the plain cores of a GPU: a tile of rows x columns of results in
/// each thread's registers. Where both operands are plain reads along one reduction axis, the block
/// passes through them in tiles of shared memory; where rows read a window together, a thread has
/// the window of its rows in registers; else every thread reads what it needs.
class ThreadContract {
 public:
  ThreadContract(const GroupSpace& space, const ThreadTilesChoice& choice,
                 const SharedOperands& operands, std::optional<WindowFactor> window,
                 const std::string& name)
      : program_(space.program()),
        axes_(space.axes()),
        choice_(choice),
        operands_(operands),
        window_(std::move(window)),
        b_(space, name),
        root_(axes_.reductions[0]),
        frame_(space.frame() ? &*space.frame() : nullptr) {}

  ScheduledKernel build();

 private:
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }

  int64_t add_strips(TileLoop* grid);
  TileBody tile_body();
  TileLoop direct_loop(TileSymbolId acc, const std::vector<IndexExpr>& box);
  int64_t steps_at_once(int axis) const;
  TileLoop shared_loop(TileSymbolId acc, const std::vector<IndexExpr>& box);
  void window_loops(TileSymbolId acc, const std::vector<IndexExpr>& box, TileBody* body);
  TileSymbolId load_window(TileBody* body);
  std::vector<IndexExpr> in_window(const IndexExpr& element) const;
  void turn_weights();
  ScalarRef at_indices(const ScalarRef& factor);
  int64_t depth_of_tiles() const;
  bool is_kept(const ScalarRef& factor) const;
  const Scalar& largest_read(const ScalarRef& factor) const;
  TileSymbolId load_operand(const ScalarRef& factor, int axis, TileVarId var,
                            const TileLoop::Dim& depth, const std::string& name, TileBody* body);
  void emit_rest(TileBody* body, const ScalarRef& total);
  bool has_rows() const { return row_var_ >= 0 || window_; }
  std::vector<IndexExpr> box_of(int position) const;
  Place place_of(int position) const;
  bool lies_along(int position, int axis) const;
  Place place_of_strips() const;
  TileNode update(TileSymbolId carry, const std::vector<IndexExpr>& box, ScalarRef value) const {
    return TileNode::of(assign_next(carry, box, std::move(value), place_of(root_)));
  }

  const TensorProgram& program_;
  const GroupAxes& axes_;
  const ThreadTilesChoice& choice_;
  SharedOperands operands_;  ///< those that go through shared memory
  std::optional<WindowFactor> window_;
  TileBuilder b_;
  int root_;
  const BlockFrame* frame_;                   ///< of a stage
  TileVarId row_var_ = -1, column_var_ = -1;  ///< with a window, the offset of a thread's rows
  TileVarId beside_var_ = -1;
  TileVarId of_thread_ = -1;  ///< with a window, a row of a thread
  IndexExpr strip_;           ///< the number of a thread's rows
};

ScheduledKernel ThreadContract::build() {
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  int64_t items = 1;
  const auto add = [&](int axis, int64_t step, TileVarId* var) {
    grid.dims.push_back(b_.loop_dim(axis, step));
    if (var != nullptr) *var = grid.dims.back().offset;
    items *= ceil_div(extent(axis), step);
  };
  const int64_t rows = digits_extent(choice_.row_digits);
  const int64_t columns = digits_extent(choice_.column_digits);
  for (const int a : choice_.others) {
    const bool beside = a == choice_.beside_axis && choice_.beside_warps > 1;
    add(a, beside ? choice_.beside_warps : 1, beside ? &beside_var_ : nullptr);
  }
  if (window_) {
    items *= add_strips(&grid);
  } else if (choice_.row_axis >= 0) {
    add(choice_.row_axis, rows, &row_var_);
  }
  if (choice_.column_axis >= 0) add(choice_.column_axis, columns, &column_var_);
  grid.body = tile_body();
  b_.program().body = b_.one_nest(std::move(grid));
  b_.program().cpu = false;
  b_.program().blocks = items;
  b_.program().warps = choice_.warps;
  ScheduledKernel out = b_.take();
  out.schedule_template =
      fmt::format("contract {}{}{}x{}", operands_.rows != nullptr ? "in shared tiles " : "",
                  window_ ? "by windows " : "", rows, columns);
  return out;
}

/// grid strip in W / rows step threads: rows lie behind each other in strips, one for each thread,
/// so that what a strip reads is a box of its own. Returns the steps.
int64_t ThreadContract::add_strips(TileLoop* grid) {
  const int64_t rows = choice_.row_digits.back().extent;
  const int64_t strips = extent(choice_.row_axis) / rows;
  const int64_t step = digits_extent(choice_.row_digits) / rows;
  const TileLoop::Dim dim = b_.plain_dim("strip", strips, step);
  row_var_ = dim.offset;
  strip_ = b_.index_of(dim);
  of_thread_ = b_.program().add_var(b_.unique("row"), TileVar::Kind::kAxis, rows);
  grid->dims.push_back(dim);
  b_.bind(choice_.row_axis, strip_ * rows + IndexExpr::var(of_thread_));
  return ceil_div(strips, step);
}

bool ThreadContract::lies_along(int position, int axis) const {
  return axis >= 0 && has_axis(axes_, position, axis);
}

std::vector<IndexExpr> ThreadContract::box_of(int position) const {
  std::vector<IndexExpr> out;
  if (beside_var_ >= 0 && lies_along(position, choice_.beside_axis))
    out.push_back(b_.index(choice_.beside_axis));
  const bool rows = lies_along(position, choice_.row_axis);
  if (rows && window_) {
    out.push_back(strip_);
    out.push_back(IndexExpr::var(of_thread_));
  } else if (rows && row_var_ >= 0) {
    out.push_back(b_.index(choice_.row_axis));
  }
  if (column_var_ >= 0 && lies_along(position, choice_.column_axis))
    out.push_back(b_.index(choice_.column_axis));
  return out;
}

/// Without one of the tile's axes the box has copies; the place is then that of what is read.
Place ThreadContract::place_of(int position) const {
  for (const int a : {choice_.beside_axis, choice_.row_axis, choice_.column_axis}) {
    if (a >= 0 && !lies_along(position, a)) return {};
  }
  Place out = place_of_strips();
  if (window_) {
    out.axes.push_back({of_thread_, {choice_.row_digits.back()}});
  } else if (row_var_ >= 0) {
    out.axes.push_back({row_var_, choice_.row_digits});
  }
  if (column_var_ >= 0) out.axes.push_back({column_var_, choice_.column_digits});
  return out;
}

/// The threads beside each other and along the strips.
Place ThreadContract::place_of_strips() const {
  Place out;
  if (beside_var_ >= 0)
    out.axes.push_back({beside_var_, {{PlaceLevel::kWarp, choice_.beside_warps}}});
  if (window_ && row_var_ >= 0) {
    const auto& digits = choice_.row_digits;
    out.axes.push_back({row_var_, {digits.begin(), std::prev(digits.end())}});
  }
  return out;
}

/// Steps along an axis whose loads a thread has on their way together: as many as it has registers
/// for, so that it waits for a cache once for all of them.
int64_t ThreadContract::steps_at_once(int axis) const {
  constexpr int64_t kMostLoaded = 32, kMostSteps = 8;
  int64_t loaded = 0;
  visit(b_.expr(root_).body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    const auto along = [&](int a, const std::vector<Place::Digit>& digits) {
      return a >= 0 && stride_along(program_, axes_, root_, s, a) != 0 ? of_thread(digits) : 1;
    };
    loaded += along(choice_.row_axis, choice_.row_digits) *
              along(choice_.column_axis, choice_.column_digits);
  });
  int64_t steps = std::clamp<int64_t>(kMostLoaded / std::max<int64_t>(loaded, 1), 1, kMostSteps);
  // No rest that is written out, where a few less leave none.
  const int64_t most = steps;
  while (2 * steps > most && extent(axis) % steps != 0) --steps;
  return extent(axis) % std::max<int64_t>(steps, 1) == 0 ? steps : most;
}

TileLoop ThreadContract::direct_loop(TileSymbolId acc, const std::vector<IndexExpr>& box) {
  const TensorExpr& e = b_.expr(root_);
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  for (const int a : choice_.inner) loop.dims.push_back(b_.loop_dim(a, 1));
  if (!loop.dims.empty()) loop.dims.back().unroll = steps_at_once(choice_.inner.back());
  const ScalarRef product = scalar_convert(
      b_.translate(root_,
                   [](int, const Scalar&) -> ScalarRef {
                     throw_internal_error(__FILE__, __LINE__, "contract",
                                          "the reduction reads a member of its group");
                   }),
      e.accumulator);
  loop.carries.push_back(carried(
      acc, box, scalar_constant(combiner_identity(e.combiner, e.accumulator)), place_of(root_)));
  loop.body.push_back(
      update(acc, box, combine_scalars(e.combiner, scalar_read(acc, e.accumulator, box), product)));
  return loop;
}

/// Whether a block has all that a factor is made of.
bool ThreadContract::is_kept(const ScalarRef& factor) const {
  if (frame_ == nullptr) return false;
  bool kept = true;
  visit(factor, [&](const Scalar& s) {
    kept &= s.kind != Scalar::Kind::kRead || frame_->kept[static_cast<size_t>(s.symbol)];
  });
  return kept;
}

/// The read of a factor that goes along the most axes: whose order its tile is loaded in.
const Scalar& ThreadContract::largest_read(const ScalarRef& factor) const {
  const Scalar* largest = nullptr;
  int most = -1;
  visit(factor, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    int axes = 0;
    for (const IndexExpr& i : s.indices) axes += i.is_var() ? 1 : 0;
    if (axes <= most) return;
    most = axes;
    largest = &s;
  });
  WEFT_CHECK(largest != nullptr, "a factor reads nothing");
  return *largest;
}

/// A tile of a factor in shared memory, [depth][rows or columns]: loaded along the axis on which
/// it lies one element after another.
TileSymbolId ThreadContract::load_operand(const ScalarRef& of, int axis, TileVarId var,
                                          const TileLoop::Dim& depth, const std::string& name,
                                          TileBody* body) {
  const ScalarRef factor = in_narrowest_type(of);
  const Scalar& read = largest_read(factor);
  const int k = choice_.inner[0];
  const TileSymbolId symbol = b_.add_value(name, factor->type);
  const bool along_depth = stride_along(program_, axes_, root_, read, k) == 1;
  const int64_t width = b_.program().vars[static_cast<size_t>(var)].extent;
  const int64_t step = depth.step;
  ThreadTile tile(choice_.warps);
  const int inner = along_depth ? k : axis;
  const int64_t inner_extent = along_depth ? step : width;
  const bool contiguous = stride_along(program_, axes_, root_, read, inner) == 1;
  int64_t vec = contiguous ? access_elements(extent(inner), byte_size(read.type), false) : 1;
  vec = std::min(vec, inner_extent);
  Place where;
  const auto first = tile.add(inner_extent, vec, 32, choice_.warps, 0);
  const auto second = tile.add(along_depth ? width : step, 1, 32, choice_.warps, 0);
  where.axes.push_back({depth.offset, along_depth ? first : second});
  where.axes.push_back({var, along_depth ? second : first});
  for (Place::Axis& a : where.axes) {
    if (a.digits.empty()) a.digits.push_back({PlaceLevel::kReg, 1});
  }
  // The axis that is written last has the fastest threads.
  if (along_depth) std::swap(where.axes[0], where.axes[1]);
  TileStatement st =
      assign(symbol, {b_.index(k), b_.index(axis)}, at_indices(factor), std::move(where));
  st.demand = Scope::kBlock;
  body->push_back(TileNode::of(std::move(st)));
  return symbol;
}

/// A factor of the root at the present indices.
ScalarRef ThreadContract::at_indices(const ScalarRef& factor) {
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  return rewrite(
      factor, [&](int v) { return b_.index(own[static_cast<size_t>(v)]); },
      [&](const ScalarRef& read) -> ScalarRef {
        auto copy = std::make_shared<Scalar>(*read);
        copy->symbol = b_.input(read->symbol);
        return copy;
      });
}

/// Constants that the rows share, with the columns innermost: a vector of them is one load.
void ThreadContract::turn_weights() {
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  visit(window_->other, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead || !s.operands.empty()) return;
    const Tensor& tensor = program_.tensors[static_cast<size_t>(s.symbol)];
    if (tensor.kind != Tensor::Kind::kConstant || !tensor.layout.is_row_major()) return;
    std::vector<int64_t> order;
    int64_t innermost = -1;
    for (size_t d = 0; d < s.indices.size(); ++d) {
      const IndexExpr& index = s.indices[d];
      const bool columns =
          index.is_var() && own[static_cast<size_t>(index.var_id())] == choice_.column_axis;
      (columns ? innermost : order.emplace_back()) = static_cast<int64_t>(d);
    }
    if (innermost < 0) return;
    order.push_back(innermost);
    b_.set_layout(s.symbol, permuted_layout(tensor.type.shape, order));
  });
}

/// Coordinates of an element of a thread's window.
std::vector<IndexExpr> ThreadContract::in_window(const IndexExpr& element) const {
  std::vector<IndexExpr> out;
  if (beside_var_ >= 0) out.push_back(b_.index(choice_.beside_axis));
  out.insert(out.end(), {strip_, element, b_.index(choice_.column_axis)});
  return out;
}

/// The window of a thread's rows: X[strip, i, column], i from the first row's first tap to the last
/// row's last.
TileSymbolId ThreadContract::load_window(TileBody* body) {
  const int64_t rows = choice_.row_digits.back().extent;
  const IndexExpr row = b_.index(choice_.row_axis), tap = b_.index(window_->tap);
  const int64_t elements = window_->elements(rows);
  const TileVarId along = b_.program().add_var(b_.unique("i"), TileVar::Kind::kAxis, elements);
  const bool by_taps = window_->dilation == 1;
  b_.bind(choice_.row_axis, by_taps ? strip_ * rows : strip_ * rows + IndexExpr::var(along));
  b_.bind(window_->tap, by_taps ? IndexExpr::var(along) : IndexExpr(0));
  const TileSymbolId symbol = b_.add_value("window", window_->moved->type);
  Place where = place_of_strips();
  where.axes.push_back({along, {{PlaceLevel::kReg, elements}}});
  where.axes.push_back({column_var_, choice_.column_digits});
  body->push_back(TileNode::of(assign(symbol, in_window(IndexExpr::var(along)),
                                      at_indices(window_->moved), std::move(where))));
  b_.bind(choice_.row_axis, row);
  b_.bind(window_->tap, tap);
  return symbol;
}

/// seq others { X = window; seq tap { t' = t + X[strip, row + tap, c] * w[tap, c] } acc' = t }
void ThreadContract::window_loops(TileSymbolId acc, const std::vector<IndexExpr>& box,
                                  TileBody* body) {
  const TensorExpr& e = b_.expr(root_);
  const DType type = e.accumulator;
  const ScalarRef none = scalar_constant(combiner_identity(e.combiner, type));
  if (window_->other) turn_weights();
  TileLoop outer;
  outer.kind = TileLoop::Kind::kSeq;
  for (const int a : choice_.inner) {
    if (a != window_->tap) outer.dims.push_back(b_.loop_dim(a, 1));
  }
  const bool nested = !outer.dims.empty();
  TileBody* at = nested ? &outer.body : body;
  const TileSymbolId window = load_window(at);
  TileLoop taps;
  taps.kind = TileLoop::Kind::kSeq;
  taps.dims.push_back(b_.loop_dim(window_->tap, 1));
  taps.dims.back().unroll = 0;
  const TileSymbolId sum = nested ? b_.add_value("part", type, TileSymbol::Kind::kCarry) : acc;
  taps.carries.push_back(
      carried(sum, box, nested ? scalar_read(acc, type, box) : none, place_of(root_)));
  const IndexExpr element =
      IndexExpr::var(of_thread_) * window_->stride + b_.index(window_->tap) * window_->dilation;
  ScalarRef value = scalar_read(window, window_->moved->type, in_window(element));
  if (window_->other) {
    std::vector<ScalarRef> factors = e.body->operands;
    for (ScalarRef& f : factors) f = f == window_->moved ? value : at_indices(f);
    value = scalar_apply(ScalarOp::kMul, std::move(factors), e.body->type);
  }
  taps.body.push_back(update(
      sum, box,
      combine_scalars(e.combiner, scalar_read(sum, type, box), scalar_convert(value, type))));
  at->push_back(TileNode::of(std::move(taps)));
  if (!nested) return;
  outer.carries.push_back(carried(acc, box, none, place_of(root_)));
  outer.body.push_back(update(acc, box, scalar_read(sum, type, box)));
  body->push_back(TileNode::of(std::move(outer)));
}

/// Of the tiles in shared memory: as deep as what is written out and their bytes allow, since
/// threads meet for each.
int64_t ThreadContract::depth_of_tiles() const {
  constexpr int64_t kMostDepth = 32, kMostWrittenOut = 256, kMostElements = 4096;
  const int64_t results = of_thread(choice_.row_digits) * of_thread(choice_.column_digits);
  const int64_t across = digits_extent(choice_.row_digits) + digits_extent(choice_.column_digits);
  int64_t depth = kMostDepth;
  while (depth > SharedOperands::kDepth &&
         (depth > extent(choice_.inner[0]) || results * depth > kMostWrittenOut ||
          across * depth > kMostElements))
    depth /= 2;
  return depth;
}

/// seq k step 8 stages 2 { tiles of both operands; seq q in 8 { t' = t + A[k+q,m] * B[k+q,n] }
/// acc' = t }, the tiles loaded an iteration ahead.
TileLoop ThreadContract::shared_loop(TileSymbolId acc, const std::vector<IndexExpr>& box) {
  const TensorExpr& e = b_.expr(root_);
  const int k = choice_.inner[0];
  const DType type = e.accumulator;
  TileLoop outer;
  outer.kind = TileLoop::Kind::kSeq;
  const int64_t deep = depth_of_tiles();
  const TileLoop::Dim depth = b_.loop_dim(k, deep);
  outer.dims.push_back(depth);
  if (extent(k) > deep && !(is_kept(operands_.rows) && is_kept(operands_.columns)))
    outer.stages = 2;
  outer.carries.push_back(
      carried(acc, box, scalar_constant(combiner_identity(e.combiner, type)), place_of(root_)));
  const TileSymbolId left =
      load_operand(operands_.rows, choice_.row_axis, row_var_, depth, "left", &outer.body);
  const TileSymbolId right = load_operand(operands_.columns, choice_.column_axis, column_var_,
                                          depth, "right", &outer.body);

  TileLoop inner;
  inner.kind = TileLoop::Kind::kSeq;
  TileLoop::Dim step;
  step.origin = b_.program().add_var(b_.unique("q"), TileVar::Kind::kOrigin, 0);
  step.begin = 0;
  const IndexExpr origin = IndexExpr::var(depth.origin);
  step.end =
      extent(k) % deep == 0 ? IndexExpr(deep) : min(IndexExpr(deep), IndexExpr(extent(k)) - origin);
  step.unroll = 0;
  inner.dims.push_back(step);
  const TileSymbolId partial = b_.add_value("part", type, TileSymbol::Kind::kCarry);
  inner.carries.push_back(carried(partial, box, scalar_read(acc, type, box), place_of(root_)));
  const IndexExpr at = origin + IndexExpr::var(step.origin);
  const auto from_tile = [&](const ScalarRef& factor) {
    const bool is_left = factor == operands_.rows;
    const TileSymbolId tile = is_left ? left : right;
    const DType own = b_.program().symbols[static_cast<size_t>(tile)].type;
    const int axis = is_left ? choice_.row_axis : choice_.column_axis;
    return scalar_convert(scalar_read(tile, own, {at, b_.index(axis)}), factor->type);
  };
  const ScalarRef product = scalar_convert(
      scalar_apply(ScalarOp::kMul, {from_tile(e.body->operands[0]), from_tile(e.body->operands[1])},
                   e.body->type),
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
  const std::vector<IndexExpr> results = box_of(root_);
  const TileSymbolId acc = b_.add_value("acc", type, TileSymbol::Kind::kCarry);
  if (window_) {
    window_loops(acc, results, &body);
  } else {
    body.push_back(TileNode::of(operands_.rows != nullptr ? shared_loop(acc, results)
                                                          : direct_loop(acc, results)));
  }
  emit_rest(&body, scalar_read(acc, type, results));
  return body;
}

void ThreadContract::emit_rest(TileBody* body, const ScalarRef& total) {
  const auto where = [this](int p) { return place_of(p); };
  const EpilogueBoxes boxes{[this](int p) { return box_of(p); }, where, where, {}};
  emit_epilogue(&b_, root_, total, boxes, body);
}

/// Whether the choice is one for the axes of the space.
Status check(const GroupSpace& space, const ThreadTilesChoice& choice) {
  const int root = space.axes().reductions[0];
  const auto& own = space.axes().axis_of[static_cast<size_t>(root)];
  const auto results = own.begin() + space.expr(root).output_rank();
  std::vector<int> outputs = choice.others;
  for (const int a : {choice.row_axis, choice.column_axis}) {
    if (a >= 0) outputs.push_back(a);
  }
  WEFT_RETURN_IF_ERROR(check_axes(space.axes(), {own.begin(), results}, outputs));
  WEFT_RETURN_IF_ERROR(check_axes(space.axes(), {results, own.end()}, choice.inner));
  if (choice.column_axis < 0 && !outputs.empty()) {
    return invalid_input("results without columns");
  }
  AxisDigits digits;
  if (choice.row_axis >= 0) digits[choice.row_axis] = choice.row_digits;
  if (choice.column_axis >= 0) digits[choice.column_axis] = choice.column_digits;
  if (choice.beside_axis >= 0) {
    if (std::ranges::find(choice.others, choice.beside_axis) == choice.others.end())
      return invalid_input("warps beside each other along an axis of a tile");
    digits[choice.beside_axis] = {{PlaceLevel::kWarp, choice.beside_warps}};
  }
  const bool without = (choice.row_axis < 0 && !choice.row_digits.empty()) ||
                       (choice.column_axis < 0 && !choice.column_digits.empty());
  if (without) return invalid_input("digits of rows or columns that there are not");
  return check_threads(digits, choice.warps);
}

/// The window that the choice asks for.
Result<WindowFactor> window_of(const GroupSpace& space, const ThreadTilesChoice& choice) {
  std::optional<WindowFactor> window = window_along(space, choice.row_axis, choice.inner);
  if (!window || choice.column_axis < 0 || choice.shared || space.frame() ||
      !runs_along(space, window->moved, choice.column_axis))
    return invalid_input("rows that read no window together");
  const int64_t rows = space.axes().axes[static_cast<size_t>(choice.row_axis)].extent;
  const bool strips = !choice.row_digits.empty() &&
                      choice.row_digits.back().level == PlaceLevel::kReg &&
                      rows % choice.row_digits.back().extent == 0;
  if (!strips) return invalid_input("rows of a thread that do not divide all rows");
  return std::move(*window);
}

}  // namespace

Result<ScheduledKernel> build_thread_contract(const GroupSpace& space,
                                              const ThreadTilesChoice& choice,
                                              const std::string& name) {
  if (const Decision one = holds_one_reduction(space); !one) return invalid_input(one.reason());
  WEFT_RETURN_IF_ERROR(check(space, choice));
  SharedOperands operands;
  if (choice.shared) operands = shared_operands(space, choice);
  if (choice.shared && operands.rows == nullptr) {
    return invalid_input("no operands that blocks could pass through shared memory");
  }
  std::optional<WindowFactor> window;
  if (choice.window) {
    WEFT_ASSIGN_OR_RETURN(window, window_of(space, choice));
  }
  return ThreadContract(space, choice, operands, std::move(window), name).build();
}

}  // namespace weft

#include "schedule/gpu/matrix_contract.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "fmt/format.h"
#include "schedule/gpu/matrix_product.h"
#include "schedule/gpu/product_factor.h"
#include "schedule/writer/best_positions.h"
#include "schedule/writer/epilogue.h"
#include "schedule/writer/one_reduction.h"
#include "schedule/writer/statements.h"
#include "schedule/writer/tile_builder.h"
#include "support/rounding.h"
#include "tile/places.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

constexpr int64_t kAccessBytes = 16;
constexpr int64_t kCombinedElements = 4;  ///< partial sums of one access

/// The contraction template through tiles in shared memory, y[m,n] = sum[k] A[m,k] * B[k,n]: every
/// axis of the group belongs to the rows (A and the result have it), the columns (B and the
/// result), the depth (A and B) or the batch; axes of one kind that lie behind each other in the
/// result are one index. A block copies tiles of both operands into shared memory some iterations
/// ahead and keeps its results in the units' fragments to the end, where the rest of the group runs
/// on them.
///     grid m step 128, n step 128 { seq k step 32 stages 3 carry acc[m,n] {
///       A[m,k] = a[m,k] at block; B[k,n] = b[k,n] at block;
///       p[m,n] = sum[k] A[m,k]*B[k,n] by mma_m16n8k16; acc' = acc + p } y[m,n] = f(acc[m,n]) }
/// On plain cores the product is seq q { t' = t + A[m,k+q] * B[k+q,n] }, each thread with results
/// of its own; the last tile's zeros are multiplied too, so that q has one end. Reductions of the
/// results follow where a tile holds all that they run over: a row's elements are in the registers
/// of its warps. Where tiles make too few blocks, several go through parts of the depth and leave
/// their sums in a workspace; after a barrier of the grid all blocks add them up, in the same order
/// every time. Where no tile holds a row whose elements nothing asks for again, each reduces what
/// it has of it, and parts are put together behind such a barrier (Souffle §6.3, in two phases).
class MatrixContract {
 public:
  MatrixContract(const GroupSpace& space, const MatrixProduct& product, const PricedTile& priced,
                 const Target& target, const std::string& name)
      : space_(space),
        axes_(space.axes()),
        target_(target),
        b_(space, name),
        root_(product.root),
        left_{product.left},
        right_{product.right},
        batch_(product.batch),
        rows_(product.rows),
        columns_(product.columns),
        depth_(product.depth),
        problem_(product.problem),
        type_(product.type),
        on_units_(product.on_units),
        whole_(product.problem.whole),
        tile_(priced.tile),
        warps_(warps_of(priced.tile)),
        microseconds_(priced.microseconds),
        in_parts_(reduces_parts(product.problem, priced.tile)) {}

  ScheduledKernel build();

 private:
  struct Operand : ProductOperand {
    TileSymbolId tile = -1;  ///< where its elements are read
  };
  using Whole = MatrixProblem::Whole;

  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  void add_dim(FlatAxis* flat, const std::string& name, int64_t step);
  TileBody tile_body();
  TileLoop product_loop(TileSymbolId acc);
  ScalarRef row_by_row(const ScalarRef& total, TileBody* body);
  void multiply_on_units(TileSymbolId acc, TileBody* body);
  TileLoop core_loop(TileSymbolId acc);
  TileStatement update(TileSymbolId carry, ScalarRef value) const {
    return assign_next(carry, box(), std::move(value), place());
  }
  TileStatement partial_sums(TileSymbolId acc);
  TileLoop combining_nest();
  TileLoop rows_of_parts();
  ScalarRef leave_part(int p, const ScalarRef& value, TileBody* body);
  std::vector<IndexExpr> part_of_row(const IndexExpr& part) const;
  void add_operand(const FlatAxis& across, const std::string& name, Operand* operand,
                   TileBody* body);
  IndexExpr index_at(int var) const;
  std::vector<IndexExpr> in_memory(const Operand& operand, const FlatAxis& across,
                                   const IndexExpr& k) const;
  bool depth_last(const Operand& operand) const;
  /// Elements along an axis that one access may have.
  int64_t width_of(const ScalarRef& value, const FlatAxis& along) const;
  void emit_rest(TileBody* body, const ScalarRef& total);
  ScalarRef reduced(int p, const ScalarRef& value, TileBody* body);
  std::vector<IndexExpr> box_of(int p) const;
  bool follows_reduction(int p) const;
  Place fragments() const;
  const Place& place() const { return place_; }
  std::vector<IndexExpr> partial_box(const IndexExpr& split) const;
  std::vector<IndexExpr> box() const { return {index_of(rows_), index_of(columns_)}; }
  IndexExpr index_of(const FlatAxis& flat) const { return b_.index_of(flat.dim); }

  const GroupSpace& space_;
  const GroupAxes& axes_;
  const Target& target_;
  TileBuilder b_;
  int root_;
  Operand left_, right_;
  std::vector<int> batch_;
  FlatAxis rows_, columns_, depth_;
  MatrixProblem problem_;
  DType type_;
  bool on_units_;
  Whole whole_;
  TilesChoice tile_;
  int64_t warps_;
  double microseconds_;
  Place place_;  ///< of the results at hand
  TileVarId split_ = -1;
  bool in_parts_ = false;                  ///< tiles reduce what they have of the columns
  std::map<int, TileSymbolId> row_parts_;  ///< by member: what they leave
  TileSymbolId partials_ = -1, core_sum_ = -1;
};

void MatrixContract::add_dim(FlatAxis* flat, const std::string& name, int64_t step) {
  TileProgram& program = b_.program();
  const std::string unique = b_.unique(name);
  flat->dim.origin = program.add_var(unique, TileVar::Kind::kOrigin, 0);
  flat->dim.offset = program.add_var(unique, TileVar::Kind::kOffset, step);
  flat->dim.begin = 0;
  flat->dim.end = flat->extent;
  flat->dim.step = step;
  const IndexExpr whole = b_.index_of(flat->dim);
  if (flat->axes.size() == 1) {
    flat->dim.begin = b_.begin_of(flat->axes[0]);
    flat->dim.end = b_.end_of(flat->axes[0]);
    return b_.bind(flat->axes[0], whole);
  }
  int64_t below = 1;
  for (size_t i = flat->axes.size(); i-- > 0;) {
    const int axis = flat->axes[i];
    IndexExpr digit = floor_div(whole, below);
    if (i > 0) digit = mod(digit, extent(axis));
    b_.bind(axis, digit);
    below *= extent(axis);
  }
}

/// How the results lie in the registers of a block.
Place MatrixContract::fragments() const {
  const auto digit = [](PlaceLevel level, int64_t n) { return Place::Digit{level, n}; };
  Place out;
  if (!on_units_) {
    out.axes.push_back({rows_.dim.offset,
                        {digit(PlaceLevel::kWarp, tile_.warps_m),
                         digit(PlaceLevel::kReg, tile_.m / tile_.warps_m / core_rows(tile_)),
                         digit(PlaceLevel::kLane, core_rows(tile_))}});
    out.axes.push_back({columns_.dim.offset,
                        {digit(PlaceLevel::kWarp, tile_.warps_n),
                         digit(PlaceLevel::kReg, tile_.n / tile_.warps_n / core_columns(tile_)),
                         digit(PlaceLevel::kLane, core_columns(tile_) / kCoreVector),
                         digit(PlaceLevel::kVec, kCoreVector)}});
    return out;
  }
  out.axes.push_back(
      {rows_.dim.offset,
       {digit(PlaceLevel::kWarp, tile_.warps_m),
        digit(PlaceLevel::kReg, tile_.m / tile_.warps_m / 8), digit(PlaceLevel::kLane, 8)}});
  out.axes.push_back({columns_.dim.offset,
                      {digit(PlaceLevel::kWarp, tile_.warps_n),
                       digit(PlaceLevel::kReg, tile_.n / tile_.warps_n / 8),
                       digit(PlaceLevel::kLane, 4), digit(PlaceLevel::kVec, 2)}});
  return out;
}

int64_t MatrixContract::width_of(const ScalarRef& value, const FlatAxis& along) const {
  const int64_t most = std::min(kAccessBytes / byte_size(type_), along.dim.step);
  const int64_t begin = b_.unit_of(along.dim.begin), end = b_.unit_of(along.dim.end);
  return access_width(b_.program(), value, along.dim.offset, most, std::gcd(begin, end),
                      [&](TileVarId id) {
                        if (id == along.dim.origin) return std::gcd(along.dim.step, begin);
                        return b_.unit_of(IndexExpr::var(id));
                      });
}

/// An operand that the block keeps is read where it lies, any other one out of a tile of it.
void MatrixContract::add_operand(const FlatAxis& across, const std::string& name, Operand* of,
                                 TileBody* body) {
  Operand& operand = *of;
  if (operand.in_place) {
    operand.tile = b_.input(operand.read->symbol);
    return;
  }
  const TileSymbolId symbol = operand.tile = b_.add_value(name, type_);
  if (!operand.order.empty()) {
    const auto t = static_cast<size_t>(operand.read->symbol);
    b_.set_layout(operand.read->symbol,
                  permuted_layout(space_.program().tensors[t].type.shape, operand.order));
  }
  const ScalarRef value = rewrite(
      operand.factor, [&](int var) { return index_at(var); },
      [&](const ScalarRef& read) -> ScalarRef {
        auto copy = std::make_shared<Scalar>(*read);
        copy->symbol = b_.input(read->symbol);
        return copy;
      });
  const FlatAxis &inner = operand.along_depth ? depth_ : across,
                 &outer = operand.along_depth ? across : depth_;
  ThreadTile threads(warps_);
  const bool turned = operand.along_depth != depth_last(operand);
  const int64_t width = turned ? 1 : width_of(value, inner);
  std::vector<Place::Digit> fast = threads.add(inner.dim.step, width, 32, warps_, 0);
  std::vector<Place::Digit> slow = threads.add(outer.dim.step, 1, 32, warps_, 0);
  if (slow.empty()) slow.push_back({PlaceLevel::kReg, 1});
  Place place;
  place.axes.push_back({outer.dim.offset, std::move(slow)});
  place.axes.push_back({inner.dim.offset, std::move(fast)});
  TileStatement st =
      assign(symbol, in_memory(operand, across, index_of(depth_)), value, std::move(place));
  st.demand = Scope::kBlock;
  body->push_back(TileNode::of(std::move(st)));
}

/// What a variable of the product's expression is now.
IndexExpr MatrixContract::index_at(int var) const {
  if (var >= kRuntimeIndexBase) return IndexExpr::var(var);
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  return b_.index(own[static_cast<size_t>(var)]);
}

/// Whether a row of the operand's tile in shared memory runs along the depth. Units of 32-bit
/// elements take no others; cores read the columns of the right operand as vectors.
bool MatrixContract::depth_last(const Operand& operand) const {
  if (on_units_) return operand.along_depth || byte_size(type_) != 2;
  return operand.along_depth && &operand == &left_;
}

/// Coordinates of an operand's tile, in the order in which it lies in shared memory; of one that
/// lies there already, those of its tensor.
std::vector<IndexExpr> MatrixContract::in_memory(const Operand& operand, const FlatAxis& across,
                                                 const IndexExpr& k) const {
  if (operand.in_place) {
    const IndexExpr here = index_of(depth_);
    std::vector<IndexExpr> out;
    for (const IndexExpr& e : operand.read->indices) {
      const IndexExpr index = substitute(e, [&](int var) { return index_at(var); });
      out.push_back(index == here ? k : index);
    }
    return out;
  }
  const IndexExpr x = index_of(across);
  return depth_last(operand) ? std::vector<IndexExpr>{x, k} : std::vector<IndexExpr>{k, x};
}

TileLoop MatrixContract::product_loop(TileSymbolId acc) {
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  loop.stages = tile_.stages;
  add_dim(&depth_, "k", tile_.k);
  if (left_.in_block && right_.in_block) loop.stages = 1;
  if (split_ >= 0) {
    const int64_t share = depth_of_split(tile_, depth_.extent);
    depth_.dim.begin = IndexExpr::var(split_) * share;
    const IndexExpr end = depth_.dim.begin + share;
    depth_.dim.end = depth_.extent % share == 0 ? end : min(end, IndexExpr(depth_.extent));
  }
  loop.dims.push_back(depth_.dim);
  loop.carries.push_back(
      carried(acc, box(), scalar_constant(float_value(DType::kF32, 0)), place()));
  add_operand(rows_, "A", &left_, &loop.body);
  add_operand(columns_, "B", &right_, &loop.body);
  if (on_units_) {
    multiply_on_units(acc, &loop.body);
  } else {
    loop.body.push_back(TileNode::of(core_loop(acc)));
    loop.body.push_back(TileNode::of(update(acc, scalar_read(core_sum_, DType::kF32, box()))));
  }
  return loop;
}

void MatrixContract::multiply_on_units(TileSymbolId acc, TileBody* body) {
  const auto operand = [&](const Operand& of, const FlatAxis& across) {
    return scalar_convert(scalar_read(of.tile, type_, in_memory(of, across, index_of(depth_))),
                          DType::kF32);
  };
  const TileSymbolId part = b_.add_value("part", DType::kF32);
  TileStatement product = assign_reduced(
      part, box(), Combiner::kSum, {depth_.dim.offset},
      scalar_apply(ScalarOp::kMul, {operand(left_, rows_), operand(right_, columns_)}, DType::kF32),
      place());
  product.unit = tile_.groups ? kGroupUnit : byte_size(type_) == 2 ? "mma_m16n8k16" : "mma_m16n8k8";
  body->push_back(TileNode::of(std::move(product)));
  body->push_back(TileNode::of(update(acc, scalar_apply(ScalarOp::kAdd,
                                                        {scalar_read(acc, DType::kF32, box()),
                                                         scalar_read(part, DType::kF32, box())},
                                                        DType::kF32))));
}

/// seq q in step carry t[m,n] = acc[m,n] { t' = t + A[m,k+q] * B[k+q,n] }, written out.
TileLoop MatrixContract::core_loop(TileSymbolId acc) {
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  TileLoop::Dim step;
  step.origin = b_.program().add_var(b_.unique("q"), TileVar::Kind::kOrigin, 0);
  step.begin = 0;
  step.end = tile_.k;
  step.unroll = 0;
  loop.dims.push_back(step);
  core_sum_ = b_.add_value("part", DType::kF32, TileSymbol::Kind::kCarry);
  loop.carries.push_back(carried(core_sum_, box(), scalar_read(acc, DType::kF32, box()), place()));
  const IndexExpr at = IndexExpr::var(depth_.dim.origin) + IndexExpr::var(step.origin);
  ScalarRef beyond;
  if (depth_.extent % tile_.k != 0 && (left_.in_block || right_.in_block)) {
    // Only what is loaded ahead has zeros beyond the depth.
    loop.dims[0].end = min(IndexExpr(tile_.k), depth_.dim.end - IndexExpr::var(depth_.dim.origin));
  } else if (depth_.extent % tile_.k != 0) {
    beyond = scalar_constant(float_value(type_, 0));
  }
  const ScalarRef product =
      scalar_apply(ScalarOp::kMul,
                   {scalar_read(left_.tile, type_, in_memory(left_, rows_, at), {}, beyond),
                    scalar_read(right_.tile, type_, in_memory(right_, columns_, at), {}, beyond)},
                   DType::kF32);
  loop.body.push_back(TileNode::of(update(
      core_sum_, scalar_apply(ScalarOp::kAdd, {scalar_read(core_sum_, DType::kF32, box()), product},
                              DType::kF32))));
  return loop;
}

TileBody MatrixContract::tile_body() {
  TileBody body;
  const TileSymbolId acc = b_.add_value("acc", DType::kF32, TileSymbol::Kind::kCarry);
  body.push_back(TileNode::of(product_loop(acc)));
  const ScalarRef total = scalar_read(acc, DType::kF32, box());
  if (split_ >= 0) {
    body.push_back(TileNode::of(partial_sums(acc)));
  } else if (tile_.groups && whole_ == Whole::kNeither) {
    emit_rest(&body, row_by_row(total, &body));
  } else {
    emit_rest(&body, total);
  }
  return body;
}

/// The finished tile through block memory, where the loop's operands were: a fragment has 4 bytes
/// of a row beside each other, and all that follows reads and stores as many as an access takes.
ScalarRef MatrixContract::row_by_row(const ScalarRef& total, TileBody* body) {
  const DType type = b_.result_type(root_);
  const TileSymbolId tile = b_.add_value("tile", type);
  TileStatement st = assign(tile, box(), scalar_convert(total, type), place());
  st.demand = Scope::kBlock;
  body->push_back(TileNode::of(std::move(st)));
  ThreadTile threads(warps_);
  const int64_t width = std::gcd(columns_.extent, kAccessBytes / byte_size(type));
  std::vector<Place::Digit> across = threads.add(tile_.n, width, 32, warps_, 0);
  std::vector<Place::Digit> down = threads.add(tile_.m, 1, 32, warps_, 0);
  if (down.empty()) down.push_back({PlaceLevel::kReg, 1});
  place_ = {{{rows_.dim.offset, std::move(down)}, {columns_.dim.offset, std::move(across)}}};
  return scalar_read(tile, type, box());
}

std::vector<IndexExpr> MatrixContract::partial_box(const IndexExpr& split) const {
  std::vector<IndexExpr> out{split};
  for (const int a : batch_) out.push_back(b_.index(a));
  for (const IndexExpr& e : box()) out.push_back(e);
  return out;
}

/// Sums over one part of the depth, for the blocks that combine them.
TileStatement MatrixContract::partial_sums(TileSymbolId acc) {
  partials_ = b_.add_value("partial", DType::kF32);
  return assign(partials_, partial_box(IndexExpr::var(split_)),
                scalar_read(acc, DType::kF32, box()), place());
}

/// Behind a barrier of the grid: the parts of each result in their order, and the epilogue.
TileLoop MatrixContract::combining_nest() {
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  for (const int a : batch_) grid.dims.push_back(b_.loop_dim(a, 1));
  ThreadTile threads(warps_);
  const int64_t width = std::gcd(columns_.extent, kCombinedElements);
  // A row that is reduced lies on the lanes of one warp, however long.
  const int64_t rounds = whole_ == Whole::kColumns ? 0 : 1;
  const auto across = threads.add(columns_.extent, width, 32, 1, rounds);
  const auto down = threads.add(rows_.extent, 1, 32, warps_, 1);
  add_dim(&rows_, "m", std::max<int64_t>(digits_extent(down), 2));
  add_dim(&columns_, "n", std::max<int64_t>(digits_extent(across), 2));
  place_ = {{{rows_.dim.offset, down}, {columns_.dim.offset, across}}};
  for (Place::Axis& a : place_.axes) {
    if (a.digits.empty()) a.digits.push_back({PlaceLevel::kReg, 2});
  }
  grid.dims.push_back(rows_.dim);
  grid.dims.push_back(columns_.dim);
  const TileVarId part = b_.program().add_var(b_.unique("t"), TileVar::Kind::kAxis, tile_.splits);
  const TileSymbolId total = b_.add_value("total", DType::kF32);
  TileStatement sum = assign_reduced(
      total, box(), Combiner::kSum, {part},
      scalar_read(partials_, DType::kF32, partial_box(IndexExpr::var(part))), place_);
  sum.place.axes.push_back({part, {{PlaceLevel::kReg, tile_.splits}}});
  grid.body.push_back(TileNode::of(std::move(sum)));
  emit_rest(&grid.body, scalar_read(total, DType::kF32, box()));
  return grid;
}

/// The rest of the group on the finished tile, in the places of its fragments. A result of a
/// reduction, and what is made of such alone, has an element for each row (or column) of the tile,
/// with copies in all threads that share it.
void MatrixContract::emit_rest(TileBody* body, const ScalarRef& total) {
  const auto where = [this](int) { return place(); };
  EpilogueBoxes boxes{
      [this](int p) { return box_of(p); }, where, where,
      [this](int p, const ScalarRef& value, TileBody* out) { return reduced(p, value, out); }};
  if (in_parts_) {
    boxes.reduced = [this](int p, const ScalarRef& value, TileBody* out) {
      return leave_part(p, value, out);
    };
    boxes.here = [this](int p) { return !follows_reduction(p) || space_.reduces(p); };
  }
  emit_epilogue(&b_, root_, total, boxes, body);
}

std::vector<IndexExpr> MatrixContract::part_of_row(const IndexExpr& part) const {
  std::vector<IndexExpr> out;
  for (const int a : batch_) out.push_back(b_.index(a));
  out.push_back(index_of(rows_));
  out.push_back(part);
  return out;
}

/// What a tile's columns leave of a reduction, for the blocks that put the parts together.
ScalarRef MatrixContract::leave_part(int p, const ScalarRef& value, TileBody* body) {
  const ScalarRef own = reduced(p, value, body);
  const TileSymbolId parts = row_parts_[p] = b_.add_value(space_.name_of(p) + "_part", own->type);
  body->push_back(TileNode::of(assign(
      parts, part_of_row(floor_div(IndexExpr::var(columns_.dim.origin), tile_.n)), own, place())));
  return nullptr;
}

/// Behind a barrier of the grid: the parts of each row, on lanes beside each other, and what
/// follows.
TileLoop MatrixContract::rows_of_parts() {
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  for (const int a : batch_) grid.dims.push_back(b_.loop_dim(a, 1));
  const int64_t parts = ceil_div(columns_.extent, tile_.n);
  ThreadTile threads(warps_);
  const auto across = threads.add(parts, 1, 32, 1, 0);
  auto down = threads.add(rows_.extent, 1, 32, warps_, 1);
  add_dim(&rows_, "m", std::max<int64_t>(digits_extent(down), 2));
  if (down.empty()) down.push_back({PlaceLevel::kReg, 2});
  grid.dims.push_back(rows_.dim);
  const TileVarId part = b_.program().add_var(b_.unique("t"), TileVar::Kind::kAxis, parts);
  place_ = {{{rows_.dim.offset, down}, {part, across}}};
  std::map<int, ScalarRef> totals;
  for (const auto& [p, symbol] : row_parts_) {
    const DType type = b_.type_of(symbol);
    const TileSymbolId total = b_.add_value(space_.name_of(p) + "_t", type);
    grid.body.push_back(TileNode::of(
        assign_reduced(total, box_of(p), b_.expr(p).combiner, {part},
                       scalar_read(symbol, type, part_of_row(IndexExpr::var(part))), place_)));
    totals[p] = scalar_read(total, type, box_of(p));
  }
  const auto where = [this](int) { return place(); };
  EpilogueBoxes boxes{[this](int p) { return box_of(p); }, where, where, nullptr};
  boxes.here = [this](int p) { return follows_reduction(p); };
  emit_epilogue(&b_, totals, boxes, &grid.body);
  return grid;
}

/// Over the whole columns, or rows, of the tile: one statement, two where a position is asked for.
ScalarRef MatrixContract::reduced(int p, const ScalarRef& value, TileBody* body) {
  const TensorExpr& e = b_.expr(p);
  const FlatAxis& over = whole_ == Whole::kColumns ? columns_ : rows_;
  const auto reduce = [&](const char* suffix, Combiner combiner, ScalarRef elements) {
    const DType type = elements->type;
    const TileSymbolId made = b_.add_value(space_.name_of(p) + suffix, type);
    body->push_back(TileNode::of(assign_reduced(made, box_of(p), combiner, {over.dim.offset},
                                                std::move(elements), place())));
    return scalar_read(made, type, box_of(p));
  };
  if (!keeps_position(e)) return reduce("_r", e.combiner, scalar_convert(value, e.accumulator));
  const int axis = axes_.axis_of[static_cast<size_t>(p)][static_cast<size_t>(e.output_rank())];
  const ScalarRef best = reduce("_m", best_of(e), value);
  // In a tile 32 bits number what a thread must hold all of.
  const ScalarRef none = scalar_constant(
      int_value(DType::kI32, e.last_on_ties ? -1 : std::numeric_limits<int32_t>::max()));
  const ScalarRef here = scalar_convert(scalar_index(b_.index(axis)), DType::kI32);
  return reduce(
      "_w", pick_of(e),
      scalar_apply(ScalarOp::kSelect, {same_value(value, best), here, none}, DType::kI32));
}

/// Coordinates in the tile of what member p makes: without those that a reduction took.
std::vector<IndexExpr> MatrixContract::box_of(int p) const {
  if (!follows_reduction(p)) return box();
  return {index_of(whole_ == Whole::kColumns ? rows_ : columns_)};
}

/// Whether the member has results of later reductions for its elements, not results of the product.
bool MatrixContract::follows_reduction(int p) const {
  if (whole_ == Whole::kNeither || p == root_) return false;
  const FlatAxis& over = whole_ == Whole::kColumns ? columns_ : rows_;
  return std::ranges::none_of(over.axes, [&](int a) { return space_.output_has_axis(p, a); });
}

ScheduledKernel MatrixContract::build() {
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  int64_t items = tile_.splits;
  if (tile_.splits > 1) {
    TileLoop::Dim split;
    split.origin = split_ = b_.program().add_var(b_.unique("s"), TileVar::Kind::kOrigin, 0);
    split.begin = 0;
    split.end = tile_.splits;
    grid.dims.push_back(split);
  }
  for (const int a : batch_) {
    grid.dims.push_back(b_.loop_dim(a, 1));
    items *= extent(a);
  }
  add_dim(&rows_, "m", tile_.m);
  add_dim(&columns_, "n", tile_.n);
  place_ = fragments();
  for (const FlatAxis* flat : {&rows_, &columns_}) {
    grid.dims.push_back(flat->dim);
    items *= round_up(flat->extent, flat->dim.step) / flat->dim.step;
  }
  grid.body = tile_body();
  b_.program().body = b_.one_nest(std::move(grid));
  if (tile_.splits > 1) {
    b_.program().body.push_back(TileNode::of(combining_nest()));
    b_.program().per_sm = (items + target_.sm_count - 1) / target_.sm_count;
  }
  if (in_parts_) {
    b_.program().body.push_back(TileNode::of(rows_of_parts()));
    b_.program().per_sm = blocks_at_once(problem_, tile_, target_);
    items = std::min(items, b_.program().per_sm * target_.sm_count);
  }
  b_.program().cpu = false;
  b_.program().blocks = items;
  b_.program().warps = warps_;
  ScheduledKernel out = b_.take();
  const std::string warps = tile_.groups
                                ? fmt::format("{} warp groups", tile_.warps_m / kGroupWarps)
                                : fmt::format("{}x{} warps", tile_.warps_m, tile_.warps_n);
  out.schedule_template = fmt::format("contract on {} {}x{}x{}, {} stages, {}, {} B shared",
                                      on_units_ ? "matrix units" : "cores", tile_.m, tile_.n,
                                      tile_.k, tile_.stages, warps, shared_bytes(problem_, tile_));
  if (tile_.splits > 1) {
    out.schedule_template += fmt::format(", depth over {} blocks", tile_.splits);
  }
  if (in_parts_) out.schedule_template += ", rows in parts";
  out.predicted_us = out.layout_us = microseconds_;
  return out;
}

}  // namespace

Result<ScheduledKernel> build_matrix_contract(const GroupSpace& space, const TilesChoice& tile,
                                              const Target& target, const std::string& name) {
  if (!space.reduces_behind_product()) {
    if (const Decision one = holds_one_reduction(space); !one) return invalid_input(one.reason());
  }
  WEFT_ASSIGN_OR_RETURN(const MatrixProduct product, find_product(space, target));
  if (const Decision follows = follows_on_tile(space, product); !follows) {
    return invalid_input(follows.reason());
  }
  WEFT_ASSIGN_OR_RETURN(const double us, tile_microseconds(product.problem, tile, target));
  return MatrixContract(space, product, {tile, us}, target, name).build();
}

}  // namespace weft

#include <algorithm>
#include <numeric>

#include "fmt/format.h"
#include "schedule/matrix_tile.h"
#include "schedule/rounding.h"
#include "schedule/templates.h"
#include "schedule/thread_tile.h"
#include "schedule/tile_builder.h"

namespace weft {

namespace {

constexpr int64_t kAccessBytes = 16;
constexpr int64_t kCombinedElements = 4;  ///< partial sums of one access
/// Beyond this share of work on padding the plain cores do as well.
constexpr int64_t kMostPadding = 8;
constexpr int64_t kCoreDepth = 8;  ///< of the shortest step on plain cores

/// The narrowest float type that holds every value of the tree, in which it is a conversion of
/// something or a choice (a pad's) between such and zero; else its own.
DType narrowest_type(const ScalarRef& s) {
  if (s->kind != Scalar::Kind::kApply) return s->type;
  if (s->op == ScalarOp::kConvert && is_float(s->type) && is_float(s->operands[0]->type) &&
      byte_size(s->operands[0]->type) < byte_size(s->type)) {
    return narrowest_type(s->operands[0]);
  }
  if (s->op != ScalarOp::kSelect) return s->type;
  for (const size_t kept : {1, 2}) {
    const ScalarRef& other = s->operands[3 - kept];
    if (other->kind == Scalar::Kind::kConstant && other->value.f == 0) {
      return narrowest_type(s->operands[kept]);
    }
  }
  return s->type;
}

/// The tree in its narrowest type.
ScalarRef narrowed(const ScalarRef& s) {
  const DType type = narrowest_type(s);
  if (type == s->type) return s;
  if (s->op == ScalarOp::kConvert) return narrowed(s->operands[0]);
  const auto branch = [&](const ScalarRef& b) {
    return b->kind == Scalar::Kind::kConstant ? scalar_constant(float_value(type, 0)) : narrowed(b);
  };
  return scalar_apply(ScalarOp::kSelect,
                      {s->operands[0], branch(s->operands[1]), branch(s->operands[2])}, type);
}

/// Axes that one index of the tile program walks, outermost first.
struct FlatAxis {
  std::vector<int> axes;
  int64_t extent = 1;
  TileLoop::Dim dim;
};

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
/// of its own. Where that makes too few blocks, several go through parts of the depth and leave
/// their sums in a workspace; after a barrier of the grid all blocks add them up, in the same order
/// every time.
class MatrixContract {
 public:
  MatrixContract(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                 const Target& target, const std::string& name)
      : program_(program),
        group_(group),
        axes_(axes),
        target_(target),
        b_(program, group, axes, name),
        root_(axes.reductions[0]) {}

  /// Finds the operands and a tile; false where this is no product for matrix units.
  bool applies() { return find_operands() && sort_axes() && choose_tile(); }
  ScheduledKernel build();

 private:
  struct Operand {
    ScalarRef factor;              ///< over the expression's own axes, in the units' type
    const Scalar* read = nullptr;  ///< the largest of its reads
    bool along_depth = false;      ///< its elements lie along the depth, else across it
  };

  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  bool depends(const Operand& operand, int axis) const;
  int64_t stride(const Operand& operand, int axis) const {
    return stride_along(program_, axes_, root_, *operand.read, axis);
  }
  bool find_operands();
  bool find_operand(const ScalarRef& factor, Operand* operand) const;
  bool sort_axes();
  void flatten_result(std::vector<int> axes, FlatAxis* flat);
  void order_depth();
  int64_t run(const Operand& operand, const FlatAxis& along) const;
  bool choose_tile();
  bool copies_directly(const Operand& operand) const;
  void add_dim(FlatAxis* flat, const std::string& name, int64_t step);
  TileBody tile_body();
  TileLoop product_loop(TileSymbolId acc);
  void multiply_on_units(TileSymbolId a, TileSymbolId b, TileSymbolId acc, TileBody* body);
  TileLoop core_loop(TileSymbolId a, TileSymbolId b, TileSymbolId acc);
  TileStatement update(TileSymbolId carry, ScalarRef value);
  TileStatement partial_sums(TileSymbolId acc);
  TileLoop combining_nest();
  TileSymbolId load_operand(const Operand& operand, const FlatAxis& across, const std::string& name,
                            TileBody* body);
  std::vector<IndexExpr> in_memory(const Operand& operand, const FlatAxis& across,
                                   const IndexExpr& k) const;
  bool depth_last(const Operand& operand) const;
  int64_t access_width(const ScalarRef& value, const FlatAxis& along) const;
  void emit_epilogue(TileBody* body, const ScalarRef& total);
  Place fragments() const;
  const Place& place() const { return place_; }
  std::vector<IndexExpr> partial_box(const IndexExpr& split) const;
  std::vector<IndexExpr> box() const { return {index_of(rows_), index_of(columns_)}; }
  IndexExpr index_of(const FlatAxis& flat) const { return b_.index_of(flat.dim); }
  TileSymbolId add_symbol(const std::string& name, TileSymbol::Kind kind, DType type) {
    TileSymbol symbol;
    symbol.name = b_.unique(name);
    symbol.kind = kind;
    symbol.type = type;
    return b_.program().add_symbol(std::move(symbol));
  }

  const TensorProgram& program_;
  const Group& group_;
  const GroupAxes& axes_;
  const Target& target_;
  TileBuilder b_;
  int root_;
  Operand left_, right_;
  std::vector<int> batch_;
  FlatAxis rows_, columns_, depth_;
  DType type_ = DType::kF16;
  bool on_units_ = true;  ///< else on plain cores
  MatrixTile tile_;
  Place place_;  ///< of the results at hand
  TileVarId split_ = -1;
  TileSymbolId partials_ = -1, core_sum_ = -1;
};

bool MatrixContract::depends(const Operand& operand, int axis) const {
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  const auto at = std::find(own.begin(), own.end(), axis);
  if (at == own.end()) return false;
  const auto var = static_cast<int>(at - own.begin());
  bool used = false;
  visit(operand.factor, [&](const Scalar& s) {
    used |= s.kind == Scalar::Kind::kIndex && uses_var(s.index, var);
    for (const IndexExpr& e : s.indices) used |= uses_var(e, var);
  });
  return used;
}

bool MatrixContract::find_operand(const ScalarRef& factor, Operand* operand) const {
  operand->factor = narrowed(factor);
  int64_t most = 0;
  visit(operand->factor, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    int64_t reach = 1;
    const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
    for (size_t v = 0; v < own.size(); ++v) {
      const bool used = std::any_of(s.indices.begin(), s.indices.end(), [&](const IndexExpr& e) {
        return uses_var(e, static_cast<int>(v));
      });
      if (used) reach *= extent(own[v]);
    }
    if (reach <= most) return;
    most = reach;
    operand->read = &s;
  });
  return operand->read != nullptr;
}

bool MatrixContract::find_operands() {
  const TensorExpr& e = b_.expr(root_);
  const ScalarRef& body = e.body;
  if (e.combiner != Combiner::kSum || e.accumulator != DType::kF32 ||
      body->kind != Scalar::Kind::kApply || body->op != ScalarOp::kMul ||
      body->type != DType::kF32) {
    return false;
  }
  if (!find_operand(body->operands[0], &left_) || !find_operand(body->operands[1], &right_)) {
    return false;
  }
  type_ = left_.factor->type;
  const bool halves = type_ == DType::kF16 || type_ == DType::kBF16;
  on_units_ = halves || target_.reduced_float32;
  return (halves || type_ == DType::kF32) && right_.factor->type == type_;
}

bool MatrixContract::sort_axes() {
  const TensorExpr& e = b_.expr(root_);
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  std::vector<int> left, right;
  for (int d = 0; d < e.axis_count(); ++d) {
    const int axis = own[static_cast<size_t>(d)];
    if (extent(axis) == 1) continue;
    const bool in_left = depends(left_, axis), in_right = depends(right_, axis);
    if (d >= e.output_rank()) {
      if (!in_left || !in_right) return false;  // a factor of the whole sum
      depth_.axes.push_back(axis);
    } else if (in_left == in_right) {
      batch_.push_back(axis);
    } else {
      (in_left ? left : right).push_back(axis);
    }
  }
  if (left.empty() || right.empty() || depth_.axes.empty()) return false;
  // Columns are what the result has one element after another.
  const auto result_stride = [&](int a) {
    return output_stride_along(program_, axes_, group_, root_, a);
  };
  const auto nearest = [&](const std::vector<int>& list) {
    int64_t least = INT64_MAX;
    for (const int a : list) least = std::min(least, result_stride(a));
    return least;
  };
  if (nearest(left) < nearest(right)) {
    std::swap(left, right);
    std::swap(left_, right_);
  }
  flatten_result(std::move(left), &rows_);
  flatten_result(std::move(right), &columns_);
  order_depth();
  return true;
}

/// The innermost axes that lie behind each other in the result become one; the others are walked by
/// the grid.
void MatrixContract::flatten_result(std::vector<int> axes, FlatAxis* flat) {
  const auto result_stride = [&](int a) {
    return output_stride_along(program_, axes_, group_, root_, a);
  };
  std::sort(axes.begin(), axes.end(), [&](int a, int c) {
    const int64_t x = result_stride(a), y = result_stride(c);
    return x != y ? x > y : a < c;
  });
  size_t first = axes.size() - 1;
  while (first > 0 &&
         result_stride(axes[first - 1]) == result_stride(axes[first]) * extent(axes[first])) {
    --first;
  }
  batch_.insert(batch_.end(), axes.begin(), axes.begin() + static_cast<ptrdiff_t>(first));
  flat->axes.assign(axes.begin() + static_cast<ptrdiff_t>(first), axes.end());
  for (const int a : flat->axes) flat->extent *= extent(a);
}

/// The order of the operand that is a plain tensor, so that its elements lie behind each other.
void MatrixContract::order_depth() {
  const auto plain = [&](const Operand& o) {
    return std::all_of(depth_.axes.begin(), depth_.axes.end(),
                       [&](int a) { return stride(o, a) > 0; });
  };
  const Operand& first = plain(left_) || !plain(right_) ? left_ : right_;
  std::sort(depth_.axes.begin(), depth_.axes.end(), [&](int a, int c) {
    const int64_t x = stride(first, a), y = stride(first, c);
    return x != y ? x > y : a < c;
  });
  for (const int a : depth_.axes) depth_.extent *= extent(a);
  left_.along_depth = run(left_, depth_) >= run(left_, rows_);
  right_.along_depth = run(right_, depth_) >= run(right_, columns_);
}

/// Elements that lie behind each other along an axis.
int64_t MatrixContract::run(const Operand& operand, const FlatAxis& along) const {
  int64_t elements = 1;
  for (size_t i = along.axes.size(); i-- > 0;) {
    if (stride(operand, along.axes[i]) != elements) break;
    elements *= extent(along.axes[i]);
  }
  return elements;
}

/// A plain read whose axes are not folded together out of several.
bool MatrixContract::copies_directly(const Operand& operand) const {
  return operand.factor->kind == Scalar::Kind::kRead && operand.factor->operands.empty() &&
         !operand.factor->fill;
}

bool MatrixContract::choose_tile() {
  MatrixProblem p;
  for (const int a : batch_) p.batch *= extent(a);
  p.m = rows_.extent;
  p.n = columns_.extent;
  p.k = depth_.extent;
  p.element_bytes = byte_size(type_);
  p.on_units = on_units_;
  p.depth = on_units_ ? 2 * kAccessBytes / p.element_bytes : kCoreDepth;
  p.gflops = type_ == DType::kF16    ? target_.peak_f16_gflops
             : type_ == DType::kBF16 ? target_.peak_bf16_gflops
             : on_units_             ? target_.peak_tf32_gflops
                                     : target_.peak_gflops;
  p.registers_on_the_way = !copies_directly(left_) || !copies_directly(right_);
  p.epilogue_bytes = 0;
  for (const TensorId t : group_.outputs) {
    p.epilogue_bytes += byte_size(program_.tensors[static_cast<size_t>(t)].type.dtype);
  }
  // Extents below one instruction's are padding.
  const int64_t padding = round_up(p.m, 16) / p.m * (round_up(p.n, on_units_ ? 8 : 32) / p.n) *
                          (round_up(p.k, p.depth) / p.k);
  if (padding > (on_units_ ? kMostPadding : 1)) return false;
  tile_ = choose_matrix_tile(p, target_);
  return tile_.m > 0;
}

void MatrixContract::add_dim(FlatAxis* flat, const std::string& name, int64_t step) {
  TileProgram& program = b_.program();
  const std::string unique = b_.unique(name);
  flat->dim.origin = program.add_var(unique, TileVar::Kind::kOrigin, 0);
  flat->dim.offset = program.add_var(unique, TileVar::Kind::kOffset, step);
  flat->dim.begin = 0;
  flat->dim.end = flat->extent;
  flat->dim.step = step;
  const IndexExpr whole = b_.index_of(flat->dim);
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
                         digit(PlaceLevel::kReg, tile_.m / tile_.warps_m / kCoreRows),
                         digit(PlaceLevel::kLane, kCoreRows)}});
    out.axes.push_back({columns_.dim.offset,
                        {digit(PlaceLevel::kWarp, tile_.warps_n),
                         digit(PlaceLevel::kReg, tile_.n / tile_.warps_n / kCoreColumns),
                         digit(PlaceLevel::kLane, 8), digit(PlaceLevel::kVec, 4)}});
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

/// Elements along an axis that one access may have: all that the address, apart from the axis, and
/// the axis's extent are multiples of.
int64_t MatrixContract::access_width(const ScalarRef& value, const FlatAxis& along) const {
  int64_t width = std::min(kAccessBytes / byte_size(type_), along.dim.step);
  visit(value, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    const TileSymbol& symbol = b_.program().symbols[static_cast<size_t>(s.symbol)];
    Shape shape;
    for (const IndexExpr& e : symbol.shape) shape.push_back(e.constant());
    AffineForm form;
    const IndexExpr offset = element_offset(symbol.layout, shape, s.indices, b_.ranges());
    if (!as_affine(offset, &form)) {
      width = 1;
      return;
    }
    int64_t common = std::gcd(form.constant, along.extent);
    const int64_t c = form.coefficient(along.dim.offset);
    for (const auto& [id, factor] : form.terms) {
      const int64_t step = id == along.dim.origin ? along.dim.step : 1;
      if (id != along.dim.offset) common = std::gcd(common, factor * step);
    }
    if (c == 0 && !uses_var(offset, along.dim.offset)) return;
    if (c != 1) width = 1;
    while (common % width != 0) width /= 2;
  });
  return width;
}

TileSymbolId MatrixContract::load_operand(const Operand& operand, const FlatAxis& across,
                                          const std::string& name, TileBody* body) {
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  const TileSymbolId symbol = add_symbol(name, TileSymbol::Kind::kValue, type_);
  const ScalarRef value = rewrite(
      operand.factor,
      [&](int var) -> IndexExpr {
        return var < kRuntimeIndexBase ? b_.index(own[static_cast<size_t>(var)])
                                       : IndexExpr::var(var);
      },
      [&](const ScalarRef& read) -> ScalarRef {
        auto copy = std::make_shared<Scalar>(*read);
        copy->symbol = b_.input(read->symbol);
        return copy;
      });
  const FlatAxis &inner = operand.along_depth ? depth_ : across,
                 &outer = operand.along_depth ? across : depth_;
  ThreadTile threads(tile_.warps());
  TileStatement st;
  const bool turned = operand.along_depth != depth_last(operand);
  const int64_t width = turned ? 1 : access_width(value, inner);
  std::vector<Place::Digit> fast = threads.add(inner.dim.step, width, 32, tile_.warps(), 0);
  std::vector<Place::Digit> slow = threads.add(outer.dim.step, 1, 32, tile_.warps(), 0);
  if (slow.empty()) slow.push_back({PlaceLevel::kReg, 1});
  st.targets.push_back({symbol, in_memory(operand, across, index_of(depth_)), false});
  st.value = value;
  st.demand = Scope::kBlock;
  st.place.axes.push_back({outer.dim.offset, std::move(slow)});
  st.place.axes.push_back({inner.dim.offset, std::move(fast)});
  body->push_back(TileNode::of(std::move(st)));
  return symbol;
}

/// Whether a row of the operand's tile in shared memory runs along the depth. Units of 32-bit
/// elements take no others; cores read the columns of the right operand as vectors.
bool MatrixContract::depth_last(const Operand& operand) const {
  if (on_units_) return operand.along_depth || byte_size(type_) != 2;
  return operand.along_depth && &operand == &left_;
}

/// Coordinates of an operand's tile, in the order in which it lies in shared memory.
std::vector<IndexExpr> MatrixContract::in_memory(const Operand& operand, const FlatAxis& across,
                                                 const IndexExpr& k) const {
  const IndexExpr x = index_of(across);
  return depth_last(operand) ? std::vector<IndexExpr>{x, k} : std::vector<IndexExpr>{k, x};
}

TileLoop MatrixContract::product_loop(TileSymbolId acc) {
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  loop.stages = tile_.stages;
  add_dim(&depth_, "k", tile_.k);
  if (split_ >= 0) {
    const int64_t share = tile_.depth_of_split(depth_.extent);
    depth_.dim.begin = IndexExpr::var(split_) * share;
    const IndexExpr end = depth_.dim.begin + share;
    depth_.dim.end = depth_.extent % share == 0 ? end : min(end, IndexExpr(depth_.extent));
  }
  loop.dims.push_back(depth_.dim);
  TileCarry carry;
  carry.target = {acc, box(), false};
  carry.type = DType::kF32;
  carry.initial = scalar_constant(float_value(DType::kF32, 0));
  carry.place = place();
  loop.carries.push_back(std::move(carry));
  const TileSymbolId a = load_operand(left_, rows_, "A", &loop.body);
  const TileSymbolId b = load_operand(right_, columns_, "B", &loop.body);

  if (on_units_) {
    multiply_on_units(a, b, acc, &loop.body);
  } else {
    loop.body.push_back(TileNode::of(core_loop(a, b, acc)));
    loop.body.push_back(TileNode::of(update(acc, scalar_read(core_sum_, DType::kF32, box()))));
  }
  return loop;
}

TileStatement MatrixContract::update(TileSymbolId carry, ScalarRef value) {
  TileStatement st;
  st.targets.push_back({carry, box(), true});
  st.value = std::move(value);
  st.place = place();
  return st;
}

void MatrixContract::multiply_on_units(TileSymbolId a, TileSymbolId b, TileSymbolId acc,
                                       TileBody* body) {
  const auto operand = [&](TileSymbolId symbol, const Operand& of, const FlatAxis& across) {
    return scalar_convert(scalar_read(symbol, type_, in_memory(of, across, index_of(depth_))),
                          DType::kF32);
  };
  const TileSymbolId part = add_symbol("part", TileSymbol::Kind::kValue, DType::kF32);
  TileStatement product;
  product.targets.push_back({part, box(), false});
  product.combiner = TileCombiner::kSum;
  product.reduce_axes.push_back(depth_.dim.offset);
  product.value = scalar_apply(
      ScalarOp::kMul, {operand(a, left_, rows_), operand(b, right_, columns_)}, DType::kF32);
  product.unit = byte_size(type_) == 2 ? "mma_m16n8k16" : "mma_m16n8k8";
  product.place = place();
  body->push_back(TileNode::of(std::move(product)));
  body->push_back(TileNode::of(update(acc, scalar_apply(ScalarOp::kAdd,
                                                        {scalar_read(acc, DType::kF32, box()),
                                                         scalar_read(part, DType::kF32, box())},
                                                        DType::kF32))));
}

/// seq q in step carry t[m,n] = acc[m,n] { t' = t + A[m,k+q] * B[k+q,n] }, written out.
TileLoop MatrixContract::core_loop(TileSymbolId a, TileSymbolId b, TileSymbolId acc) {
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  TileLoop::Dim step;
  step.origin = b_.program().add_var(b_.unique("q"), TileVar::Kind::kOrigin, 0);
  step.begin = 0;
  step.end = tile_.k;
  step.unroll = 0;
  loop.dims.push_back(step);
  core_sum_ = add_symbol("part", TileSymbol::Kind::kCarry, DType::kF32);
  TileCarry carry;
  carry.target = {core_sum_, box(), false};
  carry.type = DType::kF32;
  carry.initial = scalar_read(acc, DType::kF32, box());
  carry.place = place();
  loop.carries.push_back(std::move(carry));
  const IndexExpr at = IndexExpr::var(depth_.dim.origin) + IndexExpr::var(step.origin);
  const ScalarRef product = scalar_apply(ScalarOp::kMul,
                                         {scalar_read(a, type_, in_memory(left_, rows_, at)),
                                          scalar_read(b, type_, in_memory(right_, columns_, at))},
                                         DType::kF32);
  loop.body.push_back(TileNode::of(update(
      core_sum_, scalar_apply(ScalarOp::kAdd, {scalar_read(core_sum_, DType::kF32, box()), product},
                              DType::kF32))));
  return loop;
}

TileBody MatrixContract::tile_body() {
  TileBody body;
  const TileSymbolId acc = add_symbol("acc", TileSymbol::Kind::kCarry, DType::kF32);
  body.push_back(TileNode::of(product_loop(acc)));
  if (split_ >= 0) {
    body.push_back(TileNode::of(partial_sums(acc)));
  } else {
    emit_epilogue(&body, scalar_read(acc, DType::kF32, box()));
  }
  return body;
}

std::vector<IndexExpr> MatrixContract::partial_box(const IndexExpr& split) const {
  std::vector<IndexExpr> out{split};
  for (const int a : batch_) out.push_back(b_.index(a));
  for (const IndexExpr& e : box()) out.push_back(e);
  return out;
}

/// Sums over one part of the depth, for the blocks that combine them.
TileStatement MatrixContract::partial_sums(TileSymbolId acc) {
  partials_ = add_symbol("partial", TileSymbol::Kind::kValue, DType::kF32);
  TileStatement st;
  st.targets.push_back({partials_, partial_box(IndexExpr::var(split_)), false});
  st.value = scalar_read(acc, DType::kF32, box());
  st.place = place();
  return st;
}

/// Behind a barrier of the grid: the parts of each result in their order, and the epilogue.
TileLoop MatrixContract::combining_nest() {
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  for (const int a : batch_) grid.dims.push_back(b_.loop_dim(a, 1));
  ThreadTile threads(tile_.warps());
  const int64_t width = std::gcd(columns_.extent, kCombinedElements);
  const auto across = threads.add(columns_.extent, width, 32, 1, 1);
  const auto down = threads.add(rows_.extent, 1, 32, tile_.warps(), 1);
  add_dim(&rows_, "m", std::max<int64_t>(digits_extent(down), 2));
  add_dim(&columns_, "n", std::max<int64_t>(digits_extent(across), 2));
  place_ = {{{rows_.dim.offset, down}, {columns_.dim.offset, across}}};
  for (Place::Axis& a : place_.axes) {
    if (a.digits.empty()) a.digits.push_back({PlaceLevel::kReg, 2});
  }
  grid.dims.push_back(rows_.dim);
  grid.dims.push_back(columns_.dim);
  const TileVarId part = b_.program().add_var(b_.unique("t"), TileVar::Kind::kAxis, tile_.splits);
  const TileSymbolId total = add_symbol("total", TileSymbol::Kind::kValue, DType::kF32);
  TileStatement sum;
  sum.targets.push_back({total, box(), false});
  sum.combiner = TileCombiner::kSum;
  sum.reduce_axes.push_back(part);
  sum.value = scalar_read(partials_, DType::kF32, partial_box(IndexExpr::var(part)));
  sum.place = place_;
  sum.place.axes.push_back({part, {{PlaceLevel::kReg, tile_.splits}}});
  grid.body.push_back(TileNode::of(std::move(sum)));
  emit_epilogue(&grid.body, scalar_read(total, DType::kF32, box()));
  return grid;
}

/// The rest of the group on the finished tile, in the places of its fragments.
void MatrixContract::emit_epilogue(TileBody* body, const ScalarRef& total) {
  std::map<int, ScalarRef> values;
  for (size_t i = 0; i < group_.exprs.size(); ++i) {
    const int p = static_cast<int>(i);
    const TensorExpr& e = b_.expr(p);
    const Tensor& tensor = program_.tensors[static_cast<size_t>(e.output)];
    const TileSymbolId id =
        add_symbol(tensor.name + "_v", TileSymbol::Kind::kValue, tensor.type.dtype);
    TileStatement st;
    st.targets.push_back({id, box(), false});
    st.value =
        p == root_
            ? scalar_convert(total, tensor.type.dtype)
            : b_.translate(p, [&](int producer, const Scalar&) { return values.at(producer); });
    st.place = place();
    body->push_back(TileNode::of(std::move(st)));
    values[p] = scalar_read(id, tensor.type.dtype, box());
    if (std::find(group_.outputs.begin(), group_.outputs.end(), e.output) != group_.outputs.end()) {
      body->push_back(TileNode::of(b_.store(p, values[p], place())));
    }
  }
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
  b_.program().cpu = false;
  b_.program().blocks = items;
  b_.program().warps = tile_.warps();
  ScheduledKernel out;
  out.program = std::move(b_.program());
  out.parameters = b_.take_parameters();
  out.schedule_template =
      fmt::format("contract on {} {}x{}x{}, {} stages, {}x{} warps, {} B shared",
                  on_units_ ? "matrix units" : "cores", tile_.m, tile_.n, tile_.k, tile_.stages,
                  tile_.warps_m, tile_.warps_n, tile_.shared_bytes);
  if (tile_.splits > 1) {
    out.schedule_template += fmt::format(", depth over {} blocks", tile_.splits);
  }
  out.predicted_us = tile_.microseconds;
  return out;
}

}  // namespace

std::optional<ScheduledKernel> build_matrix_contract(const TensorProgram& program,
                                                     const Group& group, const GroupAxes& axes,
                                                     const Target& target,
                                                     const std::string& name) {
  MatrixContract contract(program, group, axes, target, name);
  if (!contract.applies()) return std::nullopt;
  return contract.build();
}

}  // namespace weft

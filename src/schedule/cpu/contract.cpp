#include "schedule/cpu/contract.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "expr/products/bfloat_products.h"
#include "expr/products/integer_products.h"
#include "group/strides.h"
#include "schedule/cpu/choose_panel.h"
#include "schedule/cpu/clip_bounds.h"
#include "schedule/cpu/cut_panel.h"
#include "schedule/cpu/lanes_of_groups.h"
#include "schedule/cpu/residues.h"
#include "schedule/writer/epilogue.h"
#include "schedule/writer/statements.h"
#include "schedule/writer/tile_builder.h"
#include "support/rounding.h"
#include "tile/bfloat_dot.h"
#include "tile/word_dot.h"

namespace weft {

namespace {

/// Axes of reductions that are written out where something depends on the position have at most so
/// many elements.
constexpr int64_t kWrittenOut = 16;

/// Writes a CPU's product or window, or several products side by side, as it was chosen.
class Contract {
 public:
  Contract(const GroupSpace& space, const PanelChoice& choice, const std::string& name)
      : space_(space),
        program_(space.program()),
        axes_(space.axes()),
        choice_(choice),
        b_(space, name),
        roots_(space.axes().reductions),
        root_(roots_[0]),
        grid_(choice.grid),
        reduction_(choice.inner),
        row_axis_(choice.row_axis),
        vec_axis_(choice.vec_axis),
        rows_(choice.rows),
        vectors_(choice.vectors),
        lanes_(choice.lanes),
        loops_(&b_, is_plain(choice, roots_) ? residues_of(space, root_, choice.vec_axis)
                                             : std::vector<Residue>()) {}

  Result<ScheduledKernel> build() {
    WEFT_RETURN_IF_ERROR(collect_reads());
    TileBody body = nest();
    b_.program().body = std::move(body);
    ScheduledKernel out = b_.take();
    out.schedule_template =
        "contract " + std::to_string(rows_) + "x" + std::to_string(vectors_ * lanes_);
    if (choice_.depth == kBFloatDotDepth) {
      const bool floats = space_.expr(root_).body->type == DType::kF32;
      out.schedule_template += floats ? " bf16" : " of words";
    }
    if (roots_.size() > 1) out.schedule_template += " of " + std::to_string(roots_.size());
    if (choice_.part > 0) out.schedule_template += " in parts of the sum";
    if (is_chunked()) out.schedule_template += " in chunks of rows";
    return out;
  }

 private:
  struct Read {
    const Scalar* scalar = nullptr;
    int root = -1;           ///< the reduction whose body it stands in
    int64_t vec_stride = 0;  ///< along the vector axis, 0 if it does not depend on it
  };

  /// Whether one product is summed up, nothing of it staged or several at a time.
  static bool is_plain(const PanelChoice& choice, const std::vector<int>& roots) {
    return roots.size() == 1 && choice.depth == 1 && choice.apart == 0 && choice.staged_read < 0 &&
           choice.staged_factor < 0;
  }
  /// Of the first reduced axis, and where the sums of the parts before and of this one wait.
  struct Part {
    int64_t begin = 0, end = 0;
    TileSymbolId before = -1, sums = -1;
  };

  Status collect_reads();
  Status check_parts() const;
  TileBody nest();
  void add_parts(const std::vector<int>& inside, TileLoop* outer);
  void add_chunks(TileLoop* loop);
  void add_rows(TileLoop* loop, TileLoop* bounded);
  std::vector<IndexExpr> waiting_at() const;
  TileBody tile_body();
  TileBody tile_of_sums_apart();
  ScalarRef at_present(const ScalarRef& s);
  void stage_panel(TileBody* body);
  void stage_factor(TileBody* body);
  bool permutes(int axis = -1) const;
  bool counts(int axis) const;
  /// Whether panels go by inside of chunks of rows.
  bool is_chunked() const { return choice_.rows_outermost && choice_.part_rows > 0; }
  bool is_innermost(int axis) const {
    return std::ranges::find(innermost_, axis) != innermost_.end();
  }
  bool stages() const { return staged_read_ != nullptr || choice_.staged_factor >= 0; }
  ScalarRef body_of(int root) const;
  void walk_product(TileLoop* loop, ScalarRef* product);
  TileLoop reduction_loop();
  ScalarRef sum_of_step(TileLoop* loop, const std::vector<IndexExpr>& box, Place place,
                        const ScalarRef& product);
  void emit_rest(TileBody* body, const std::map<int, ScalarRef>& totals);
  Place tile_place(bool with_rows, bool with_vectors) const;
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  ScalarRef translated(const Scalar& read);
  ScalarRef read_scratch(DType type) const;

  const GroupSpace& space_;
  const TensorProgram& program_;
  const GroupAxes& axes_;
  const PanelChoice& choice_;
  TileBuilder b_;
  const std::vector<int>& roots_;  ///< the reductions
  int root_;                       ///< the first; where something is staged or apart, the only one

  std::vector<Read> reads_;
  const std::vector<int>& grid_;       ///< other output axes
  const std::vector<int>& reduction_;  ///< in loop order
  std::vector<int> innermost_;         ///< of the grid, inside of the rows
  int row_axis_, vec_axis_;
  int64_t rows_, vectors_, lanes_;
  ResidueLoops loops_;
  TileVarId row_var_ = -1, vec_var_ = -1;
  Part part_;
  std::optional<TileLoop::Dim> chunk_;   ///< of rows
  std::vector<int> chunk_axes_;          ///< of the grid: what waits has all of them
  const Scalar* staged_read_ = nullptr;  ///< non-constant operand staged in scratch
  TileSymbolId panel_ = -1;
  std::optional<SumApart> apart_;
  bool predicated_ = false;
};

/// Products that a processor adds up in a lane; 1 where it multiplies one by one.
int64_t depth_of_unit(const ScalarRef& product) {
  if (const std::optional<IntegerProduct> integers = as_integer_product(product))
    return integers->in_words() ? kWordDotDepth : kByteDotDepth;
  return as_bfloat_product(product) ? kBFloatDotDepth : 1;
}

Status Contract::collect_reads() {
  const bool in_steps = choice_.depth > 1;
  if (in_steps && (reduction_.empty() || choice_.depth != depth_of_unit(space_.expr(root_).body)))
    return invalid_input("a depth of " + std::to_string(choice_.depth) +
                         " is for products of bytes, four at a time, or of words or bfloat16, two");
  const ScalarRef& sum = space_.expr(root_).body;
  const bool product = sum->kind == Scalar::Kind::kApply && sum->op == ScalarOp::kMul &&
                       sum->type == space_.expr(root_).accumulator;
  if (choice_.staged_factor < -1 || choice_.staged_factor > 1 ||
      (choice_.staged_factor >= 0 &&
       (!product || vec_axis_ < 0 || reduction_.empty() || in_steps || choice_.staged_read >= 0)))
    return invalid_input("only a factor of a product is staged, panel by panel");
  if (choice_.staged_factor >= 0 &&
      !stays_for_panel(space_, choice_, sum->operands[static_cast<size_t>(choice_.staged_factor)]))
    return invalid_input("a factor that is staged is the same for all rows and places of the grid");
  apart_ = sum_apart(space_, choice_);
  if (choice_.apart != 0 && (!apart_ || vec_axis_ < 0 || in_steps || choice_.staged_read >= 0 ||
                             choice_.staged_factor >= 0))
    return invalid_input(
        "only a product of which something is the same along them is summed up "
        "apart along the last axes, and nothing of it is staged");
  if (roots_.size() > 1 &&
      (in_steps || choice_.staged_factor >= 0 || choice_.staged_read >= 0 || choice_.apart != 0))
    return invalid_input("of several products nothing is staged or summed up apart");
  WEFT_RETURN_IF_ERROR(check_parts());
  for (const int root : roots_) {
    visit(space_.expr(root).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) reads_.push_back({&s, root});
      if (s.kind == Scalar::Kind::kApply && s.op == ScalarOp::kSelect) predicated_ = true;
    });
  }
  if (choice_.vec_strides.size() != reads_.size() ||
      choice_.constants_in_panels.size() != reads_.size())
    return invalid_input("a panel's choice has a stride for each read of the reduction");
  for (size_t r = 0; r < reads_.size(); ++r) {
    const Scalar& read = *reads_[r].scalar;
    reads_[r].vec_stride = choice_.vec_strides[r];
    if (choice_.staged_read == static_cast<int>(r)) staged_read_ = &read;
    if (!choice_.constants_in_panels[r]) continue;
    std::optional<Layout> layout = panel_layout(space_, choice_, reads_[r].root, read);
    const Tensor& tensor = program_.tensors[static_cast<size_t>(read.symbol)];
    if (!layout || tensor.kind != Tensor::Kind::kConstant)
      return invalid_input(tensor.name + " cannot be laid out in panels");
    b_.set_layout(read.symbol, std::move(*layout));
  }
  innermost_ = axes_inside_rows(space_, choice_);
  return {};
}

Status Contract::check_parts() const {
  const bool none = choice_.part == 0 && choice_.part_rows == 0 && choice_.part_axes == 0;
  if (none) return {};
  constexpr int64_t kMostParts = 64, kMostRows = 1 << 16;
  const bool rows = row_axis_ >= 0 && vec_axis_ >= 0 && !reduction_.empty() && !loops_.any() &&
                    choice_.part_rows > 0 && choice_.part_rows <= kMostRows &&
                    choice_.part_rows % rows_ == 0;
  const bool several = rows && choice_.part_rows < extent(row_axis_);
  if (choice_.rows_outermost && !several)
    return invalid_input("panels go by inside of several chunks of whole tiles of rows");
  if (rows && choice_.part == 0 && choice_.rows_outermost && choice_.part_axes == 0) return {};
  const int first = rows ? reduction_.front() : -1;
  if (rows && is_plain(choice_, roots_) && choice_.part > 0 && choice_.part < extent(first) &&
      choice_.part_axes >= 0 && choice_.part_axes <= std::ssize(grid_) &&
      ceil_div(extent(first), choice_.part) <= kMostParts && b_.begin_of(first).is_const(0) &&
      b_.end_of(first).is_const(extent(first)))
    return {};
  return invalid_input("only a plain sum of a panel's rows is made in parts of a known axis");
}

Place Contract::tile_place(bool with_rows, bool with_vectors) const {
  Place place;
  if (with_rows && row_var_ >= 0) place.axes.push_back(place_of(row_var_, rows_, 1).axes[0]);
  if (with_vectors && vec_var_ >= 0)
    place.axes.push_back(place_of(vec_var_, vectors_, lanes_).axes[0]);
  return place;
}

/// grid others { grid vector panels { [stage the panel] grid row tiles { tile } } }, or
/// grid others { grid row tiles { grid vector panels { tile } } } where `rows_outermost`, or in
/// chunks of rows, whose operand stays in a cache while the panels go by:
/// grid others { grid chunks { grid vector panels { [stage the panel] seq row tiles { tile } } } }
/// Axes along which all slides run innermost.
TileBody Contract::nest() {
  TileLoop outer;
  outer.kind = TileLoop::Kind::kGrid;
  // Axes that the vector operand does not depend on run inside its panel, so that the panel stays
  // in cache.
  const std::vector<int> inside = axes_inside_panel(space_, choice_);
  const bool bounded = loops_.any_bounded(), rows_first = choice_.rows_outermost && !bounded;
  TileLoop inner;
  for (const int a : grid_) {
    const bool later = choice_.part == 0 && is_innermost(a);
    if (!later && std::ranges::find(inside, a) == inside.end())
      loops_.add_axis(&outer, a, 1, &inner);
  }
  const auto add_panels = [&] {
    if (vec_axis_ < 0) return;
    outer.dims.push_back(b_.loop_dim(vec_axis_, vectors_ * lanes_));
    vec_var_ = outer.dims.back().offset;
  };
  if (is_chunked()) add_chunks(&outer);
  if (!rows_first || is_chunked()) add_panels();
  inner.kind = is_chunked() || bounded ? TileLoop::Kind::kSeq : TileLoop::Kind::kGrid;
  TileLoop& last = stages() || is_chunked() ? inner : outer;
  if (choice_.part > 0) {
    add_parts(inside, &outer);
    return b_.one_nest(std::move(outer));
  }
  if (staged_read_ != nullptr) stage_panel(&outer.body);
  if (choice_.staged_factor >= 0) stage_factor(&outer.body);
  for (const int a : inside) {
    if (!is_innermost(a)) loops_.add_axis(&last, a, 1, &inner);
  }
  if (row_axis_ >= 0) add_rows(&last, &inner);
  if (rows_first && !is_chunked()) add_panels();
  for (const int a : innermost_) loops_.add_axis(&last, a, 1, &inner);
  (bounded ? inner : last).body = tile_body();
  if (&last == &inner || bounded) {
    if (inner.dims.empty()) {
      for (TileNode& n : inner.body) outer.body.push_back(std::move(n));
    } else {
      outer.body.push_back(TileNode::of(std::move(inner)));
    }
  }
  return b_.one_nest(std::move(outer));
}

void Contract::add_chunks(TileLoop* loop) {
  if (choice_.part_rows >= extent(row_axis_) && !axes_.axes[static_cast<size_t>(row_axis_)].open)
    return;
  chunk_ = b_.loop_dim(row_axis_, choice_.part_rows);
  loop->dims.push_back(*chunk_);
}

/// Of the chunk, where there are chunks.
void Contract::add_rows(TileLoop* loop, TileLoop* bounded) {
  row_var_ = loops_.add_axis(loop, row_axis_, rows_, bounded);
  if (!chunk_) return;
  loop->dims.back().begin = IndexExpr::var(chunk_->origin);
  loop->dims.back().end =
      min(IndexExpr::var(chunk_->origin) + choice_.part_rows, b_.end_of(row_axis_));
}

/// grid chunks of rows {
///   seq row tiles { sums[rows, panel] = the first part of the sum }
///   seq row tiles { sums_2[rows, panel] = sums[rows, panel] + the second part } ...
///   seq row tiles { sums_n[rows, panel] + the last part; what follows }
/// }
/// A part's panel stays in a cache that does not hold the whole one, while the rows go over it
/// (Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008).
void Contract::add_parts(const std::vector<int>& inside, TileLoop* outer) {
  const auto whole = std::min(static_cast<size_t>(choice_.part_axes), inside.size());
  const std::span<const int> axes(inside);
  for (const int a : axes.first(axes.size() - whole)) loops_.add_axis(outer, a, 1, nullptr);
  const std::span<const int> last = axes.last(whole);
  chunk_axes_.assign(last.begin(), last.end());
  if (!is_chunked()) add_chunks(outer);
  const int64_t end = extent(reduction_.front());
  TileSymbolId before = -1;
  for (int64_t begin = 0; begin < end; begin += choice_.part) {
    part_ = {begin, std::min(begin + choice_.part, end), before, -1};
    if (part_.end < end) part_.sums = b_.add_value("sums", b_.expr(root_).accumulator);
    TileLoop rows;
    rows.kind = TileLoop::Kind::kSeq;
    for (const int a : chunk_axes_) {
      if (!is_innermost(a)) loops_.add_axis(&rows, a, 1, nullptr);
    }
    add_rows(&rows, nullptr);
    for (const int a : chunk_axes_) {
      if (is_innermost(a)) loops_.add_axis(&rows, a, 1, nullptr);
    }
    rows.body = tile_body();
    outer->body.push_back(TileNode::of(std::move(rows)));
    before = part_.sums;
  }
}

/// Where a tile's sums wait for the next part.
std::vector<IndexExpr> Contract::waiting_at() const {
  std::vector<IndexExpr> out;
  for (const int a : chunk_axes_) out.push_back(b_.index(a));
  out.push_back(loops_.coordinate(row_axis_));
  out.push_back(b_.index(vec_axis_));
  return out;
}

/// The vector operand's panel in scratch, [reduction][vector]: read across its rows, a vector of
/// the innermost axis at a time.
void Contract::stage_panel(TileBody* body) {
  const Scalar& read = *staged_read_;
  panel_ = b_.add_value("panel", read.type);
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
  TileStatement st = assign(panel_, std::move(coordinates), translated(read), std::move(place));
  st.demand = Scope::kBlock;
  loop.body.push_back(TileNode::of(std::move(st)));
  if (loop.dims.empty()) {
    body->push_back(std::move(loop.body[0]));
  } else {
    body->push_back(TileNode::of(std::move(loop)));
  }
}

/// The product's factor of constants in scratch, [reduction][vector].
void Contract::stage_factor(TileBody* body) {
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  std::vector<IndexExpr> coordinates;
  for (const int a : reduction_) {
    loop.dims.push_back(b_.loop_dim(a, 1));
    if (a == reduction_.back()) loop.dims.back().unroll = extent(a) <= kWrittenOut ? 0 : 2;
    coordinates.push_back(b_.index(a));
  }
  coordinates.push_back(b_.index(vec_axis_));
  const ScalarRef factor = body_of(root_)->operands[static_cast<size_t>(choice_.staged_factor)];
  panel_ = b_.add_value("panel", factor->type);
  TileStatement st =
      assign(panel_, std::move(coordinates), factor, place_of(vec_var_, vectors_, lanes_));
  st.demand = Scope::kBlock;
  loop.body.push_back(TileNode::of(std::move(st)));
  body->push_back(TileNode::of(std::move(loop)));
}

/// What is summed up, at the present indices.
ScalarRef Contract::body_of(int root) const {
  return b_.translate(root, [](int, const Scalar&) -> ScalarRef {
    throw_internal_error(__FILE__, __LINE__, "contract",
                         "the reduction reads a member of its group");
  });
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

ScalarRef Contract::read_scratch(DType type) const {
  std::vector<IndexExpr> coordinates;
  for (const int a : reduction_) coordinates.push_back(b_.index(a));
  coordinates.push_back(b_.index(vec_axis_));
  return scalar_read(panel_, type, std::move(coordinates));
}

TileLoop Contract::reduction_loop() {
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  for (size_t i = 0; i < reduction_.size(); ++i) {
    const int a = reduction_[i];
    const bool innermost = i + 1 == reduction_.size();
    TileLoop::Dim dim = loops_.tap(a, innermost ? choice_.depth : 1);
    if (choice_.part > 0 && i == 0) {
      dim.begin = part_.begin;
      dim.end = part_.end;
    }
    // A predicate that a window axis enters is decided where the axis is written out.
    if (predicated_ && extent(a) <= 8 && !innermost) dim.unroll = 0;
    if (innermost) dim.unroll = rows_ * vectors_ >= 16 ? 2 : 4;
    if (extent(a) <= lanes_ && (permutes(a) || (innermost && permutes()))) dim.unroll = 0;
    // Which part of a byte is read is decided where the axis is written out.
    if (innermost && !predicated_ && counts(a)) dim.unroll = 0;
    if (!loops_.takes_as_many_taps(a)) dim.unroll = 1;
    loop.dims.push_back(dim);
  }
  if (loop.dims.empty()) loop.dims.push_back(b_.once());  // a chain's step may have one term
  return loop;
}

/// Whether lanes of vectors across groups are permuted: such a vector takes all of a group's
/// channels from one load, once the axis along them is written out.
bool Contract::permutes(int axis) const {
  return std::ranges::any_of(reads_, [&](const Read& r) {
    return r.vec_stride < 0 && !is_one_element(space_, r.root, *r.scalar, vec_axis_, lanes_) &&
           (axis < 0 || stride_along(space_.program(), axes_, r.root, *r.scalar, axis) == 1);
  });
}

/// Whether a short axis's position is a value in the reduction's body.
bool Contract::counts(int axis) const {
  bool found = false;
  for (const int root : roots_) {
    const auto& own = axes_.axis_of[static_cast<size_t>(root)];
    visit(space_.expr(root).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kIndex) return;
      for (const int v : variables(s.index)) found |= own[static_cast<size_t>(v)] == axis;
    });
  }
  return found && extent(axis) <= kWrittenOut;
}

/// Of the reduction's body, at the present indices.
ScalarRef Contract::at_present(const ScalarRef& s) {
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  return rewrite(
      s,
      [&](int v) {
        return v < kRuntimeIndexBase ? b_.index(own[static_cast<size_t>(v)]) : IndexExpr::var(v);
      },
      [&](const ScalarRef& read) {
        auto copy = std::make_shared<Scalar>(*read);
        copy->symbol = b_.input(read->symbol);
        return ScalarRef(copy);
      });
}

/// seq other axes carry acc {
///   seq the last axes carry part, others { part' = part + moving; others' = others + beside }
///   acc' = acc + (part - zero * others) * scale
/// }
TileBody Contract::tile_of_sums_apart() {
  std::vector<IndexExpr> box, row;
  if (row_axis_ >= 0) row.push_back(b_.index(row_axis_));
  box = row;
  box.push_back(b_.index(vec_axis_));
  const Place place = tile_place(true, true);
  const ScalarRef none = scalar_constant(float_value(DType::kF32, 0));
  const auto apply = [](ScalarOp op, const ScalarRef& a, const ScalarRef& b) {
    return scalar_apply(op, {a, b}, DType::kF32);
  };
  const auto add_to = [&](TileLoop* loop, const char* name, const std::vector<IndexExpr>& at,
                          const Place& where, const ScalarRef& summand) {
    const TileSymbolId carry = b_.add_value(name, DType::kF32, TileSymbol::Kind::kCarry);
    const ScalarRef before = scalar_read(carry, DType::kF32, at);
    loop->carries.push_back(carried(carry, at, none, where));
    loop->body.push_back(
        TileNode::of(assign_next(carry, at, apply(ScalarOp::kAdd, before, summand), where)));
    return before;
  };
  TileLoop outer = reduction_loop();
  TileLoop inner;
  inner.kind = TileLoop::Kind::kSeq;
  const auto first = outer.dims.end() - choice_.apart;
  inner.dims.assign(first, outer.dims.end());
  outer.dims.erase(first, outer.dims.end());
  ScalarRef sum = add_to(&inner, "part", box, place, at_present(apart_->moving));
  if (apart_->zero) {
    const ScalarRef others =
        add_to(&inner, "others", row, tile_place(true, false), at_present(apart_->beside));
    sum = apply(ScalarOp::kSub, sum, apply(ScalarOp::kMul, at_present(apart_->zero), others));
  }
  if (apart_->scale) sum = apply(ScalarOp::kMul, sum, at_present(apart_->scale));
  TileBody body;
  if (outer.dims.empty()) {
    body.push_back(TileNode::of(std::move(inner)));
  } else {
    outer.body.push_back(TileNode::of(std::move(inner)));
    sum = add_to(&outer, "acc", box, place, sum);
    body.push_back(TileNode::of(std::move(outer)));
  }
  emit_rest(&body, {{root_, sum}});
  return body;
}

TileBody Contract::tile_body() {
  if (apart_) return tile_of_sums_apart();
  TileBody body;
  std::vector<IndexExpr> box;
  if (row_axis_ >= 0) box.push_back(loops_.coordinate(row_axis_));
  if (vec_axis_ >= 0) box.push_back(b_.index(vec_axis_));
  const Place place = tile_place(true, true);
  std::vector<TileSymbolId> carries;  // named before the loop's own
  for (const int root : roots_)
    carries.push_back(b_.add_value("acc", b_.expr(root).accumulator, TileSymbol::Kind::kCarry));
  TileLoop loop = reduction_loop();
  std::map<int, ScalarRef> totals;
  for (size_t r = 0; r < roots_.size(); ++r) {
    const TensorExpr& e = b_.expr(roots_[r]);
    const DType acc = e.accumulator;
    loop.carries.push_back(
        carried(carries[r], box, scalar_constant(combiner_identity(e.combiner, acc)), place));
    const ScalarRef before = scalar_read(carries[r], acc, box);
    ScalarRef product = loops_.simplified(scalar_convert(body_of(roots_[r]), acc));
    if (roots_.size() == 1) walk_product(&loop, &product);
    if (choice_.depth > 1) product = sum_of_step(&loop, box, place, product);
    loop.body.push_back(TileNode::of(
        assign_next(carries[r], box, combine_scalars(e.combiner, before, product), place)));
    totals[roots_[r]] = before;
    if (part_.before >= 0)
      totals[roots_[r]] =
          combine_scalars(e.combiner, scalar_read(part_.before, acc, waiting_at()), before);
  }
  body.push_back(TileNode::of(std::move(loop)));
  if (part_.sums >= 0) {
    body.push_back(TileNode::of(assign(part_.sums, waiting_at(), totals.at(root_), place)));
  } else {
    emit_rest(&body, totals);
  }
  return body;
}

/// The one product with its staged parts read from scratch, and its predicates as bounds.
void Contract::walk_product(TileLoop* loop, ScalarRef* product) {
  if (choice_.staged_factor >= 0) {
    std::vector<ScalarRef> factors = (*product)->operands;
    ScalarRef& staged = factors[static_cast<size_t>(choice_.staged_factor)];
    staged = read_scratch(staged->type);
    *product = scalar_apply(ScalarOp::kMul, std::move(factors), (*product)->type);
  }
  if (staged_read_ != nullptr) {
    const ScalarRef staged = translated(*staged_read_);
    *product = rewrite(
        *product, [](int v) { return IndexExpr::var(v); },
        [&](const ScalarRef& r) { return equal(r, staged) ? read_scratch(r->type) : r; });
  }
  clip_bounds(b_, b_.expr(root_), loop, product);
}

/// What one step of the depth adds to the tile, by the processor's products of bytes.
ScalarRef Contract::sum_of_step(TileLoop* loop, const std::vector<IndexExpr>& box, Place place,
                                const ScalarRef& product) {
  const TileVarId step = loop->dims.back().offset;
  const TileSymbolId sum = b_.add_value("p", product->type);
  place.axes.push_back(place_of(step, choice_.depth, 1).axes[0]);
  TileStatement st = assign_reduced(sum, box, Combiner::kSum, {step}, product, std::move(place));
  st.unit = product->type == DType::kF32     ? kBFloatDotUnit
            : choice_.depth == kWordDotDepth ? kWordDotUnit
                                             : kByteDotUnit;
  loop->body.push_back(TileNode::of(std::move(st)));
  return scalar_read(sum, product->type, box);
}

void Contract::emit_rest(TileBody* body, const std::map<int, ScalarRef>& totals) {
  const auto in_rows = [this](int p) { return row_axis_ >= 0 && has_axis(axes_, p, row_axis_); };
  const auto in_vectors = [this](int p) { return vec_axis_ >= 0 && has_axis(axes_, p, vec_axis_); };
  const EpilogueBoxes boxes{[&](int p) {
                              std::vector<IndexExpr> box;
                              if (in_rows(p)) box.push_back(loops_.coordinate(row_axis_));
                              if (in_vectors(p)) box.push_back(b_.index(vec_axis_));
                              return box;
                            },
                            [&](int p) { return tile_place(in_rows(p), in_vectors(p)); },
                            [&](int) { return tile_place(true, true); },
                            {}};
  emit_epilogue(&b_, totals, boxes, body);
}

}  // namespace

Result<ScheduledKernel> build_contract(const GroupSpace& space, const PanelChoice& choice,
                                       const std::string& name) {
  return Contract(space, choice, name).build();
}

}  // namespace weft

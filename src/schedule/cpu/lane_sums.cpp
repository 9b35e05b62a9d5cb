#include "schedule/cpu/lane_sums.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "group/strides.h"
#include "schedule/cpu/clip_bounds.h"
#include "schedule/cpu/residues.h"
#include "schedule/writer/epilogue.h"
#include "schedule/writer/statements.h"
#include "schedule/writer/tile_builder.h"
#include "support/rounding.h"

namespace weft {

namespace {

/// The one reduction of a group, its reads, and where they lie.
class LaneProduct {
 public:
  explicit LaneProduct(const GroupSpace& space)
      : space_(space), axes_(space.axes()), root_(space.axes().reductions[0]) {
    visit(expr().body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) reads_.push_back(&s);
    });
  }

  const TensorExpr& expr() const { return space_.expr(root_); }
  const std::vector<const Scalar*>& reads() const { return reads_; }
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  bool is_open(int axis) const { return axes_.axes[static_cast<size_t>(axis)].open; }
  int64_t stride(const Scalar& read, int axis) const {
    return stride_along(space_.program(), axes_, root_, read, axis);
  }
  bool is_constant(const Scalar& read) const {
    return tensor(read).kind == Tensor::Kind::kConstant;
  }
  const Tensor& tensor(const Scalar& read) const {
    return space_.program().tensors[static_cast<size_t>(read.symbol)];
  }

  /// Axes of the result, or those that are summed up, longer than 1.
  std::vector<int> outputs() const { return axes(0, expr().output_rank()); }
  std::vector<int> reduced() const { return axes(expr().output_rank(), expr().axis_count()); }

  /// Whether a condition or a value depends on the position along the axis.
  bool counts(int axis) const {
    bool found = false;
    const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
    visit(expr().body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kIndex) return;
      for (const int v : variables(s.index))
        found |= v < kRuntimeIndexBase && own[static_cast<size_t>(v)] == axis;
    });
    return found;
  }

  /// A constant's order with the reduced axes innermost, as the loops go; nothing where it is not
  /// read along whole axes, or has no other axis.
  std::optional<Layout> layout(const Scalar& read, const std::vector<int>& inner) const {
    const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
    const Tensor& t = tensor(read);
    std::vector<int> axis_of_dim;
    for (size_t d = 0; d < read.indices.size(); ++d) {
      const IndexExpr& index = read.indices[d];
      if (index.is_const(0) && t.type.shape[d] == 1) {
        axis_of_dim.push_back(-1);
        continue;
      }
      if (!index.is_var() || index.var_id() >= kRuntimeIndexBase) return std::nullopt;
      axis_of_dim.push_back(own[static_cast<size_t>(index.var_id())]);
      if (extent(axis_of_dim.back()) != t.type.shape[d]) return std::nullopt;
    }
    Layout out;
    const auto add = [&](size_t d) {
      out.axes.push_back({static_cast<int32_t>(d), 1, t.type.shape[d]});
    };
    for (size_t d = 0; d < axis_of_dim.size(); ++d) {
      if (std::ranges::find(inner, axis_of_dim[d]) == inner.end()) add(d);
    }
    for (const int a : inner) {
      const auto dim = std::ranges::find(axis_of_dim, a);
      if (dim != axis_of_dim.end()) add(static_cast<size_t>(dim - axis_of_dim.begin()));
    }
    return out;
  }

  /// Whether nothing else of the body reads the tensor: it keeps its order otherwise.
  bool alone(const Scalar& read) const {
    return std::ranges::count(reads_, read.symbol, [](const Scalar* s) { return s->symbol; }) == 1;
  }

 private:
  std::vector<int> axes(int from, int to) const {
    std::vector<int> out;
    for (int d = from; d < to; ++d) {
      const int a = axes_.axis_of[static_cast<size_t>(root_)][static_cast<size_t>(d)];
      if (extent(a) != 1) out.push_back(a);
    }
    return out;
  }

  const GroupSpace& space_;
  const GroupAxes& axes_;
  int root_;
  std::vector<const Scalar*> reads_;
};

/// Two factors of float32, of which conditions may leave something out.
bool is_product_of_two(const GroupSpace& space, const LaneProduct& product) {
  const TensorExpr& e = product.expr();
  return space.axes().reductions.size() == 1 && !space.frame() && e.is_contraction &&
         e.combiner == Combiner::kSum && e.accumulator == DType::kF32 &&
         e.body->type == DType::kF32 && product.reads().size() == 2 &&
         std::ranges::all_of(product.reads(), [](const Scalar* s) {
           return s->type == DType::kF32 && s->operands.empty();
         });
}

/// The reduced axis along which both factors lie side by side, or can: whole vectors of it.
int axis_of_lanes(const LaneProduct& product, int64_t* lanes) {
  for (const int a : product.reduced()) {
    const bool side_by_side = std::ranges::all_of(product.reads(), [&](const Scalar* s) {
      return product.is_constant(*s) ? product.alone(*s) && product.stride(*s, a) > 0
                                     : product.stride(*s, a) == 1;
    });
    if (!side_by_side || product.is_open(a) || product.counts(a)) continue;
    for (; *lanes >= 4; *lanes /= 2) {
      if (product.extent(a) % *lanes == 0) return a;
    }
    return -1;
  }
  return -1;
}

struct Tile {
  int64_t rows = 1, columns = 1;
};

/// Whether conditions leave something out.
bool is_conditional(const TensorExpr& e) {
  bool found = false;
  visit(e.body, [&](const Scalar& s) {
    found |= s.kind == Scalar::Kind::kApply && s.op == ScalarOp::kSelect;
  });
  return found;
}

/// The tile of the fewest cycles: a vector of each factor is loaded for a row and for a column.
/// `decided` cycles tell whether a row is inside.
Tile best_tile(int64_t rows, int64_t columns, int64_t steps, double decided, const Target& target) {
  constexpr int64_t kMostRows = 14, kMostColumns = 12;
  constexpr double kLatency = 6, kLoop = 1, kAddLanes = 5;  // cycles; of a sum's lanes in the end
  Tile best;
  double least = 1e300;
  for (int64_t c = 1; c <= std::min(columns, kMostColumns); ++c) {
    for (int64_t r = 1; r <= std::min(rows, kMostRows); ++r) {
      if (4 * r * c > 3 * target.vector_registers) continue;
      const auto sums = static_cast<double>(r * c);
      const double step = kLoop + decided * static_cast<double>(r) +
                          std::max({sums, static_cast<double>(r + c), kLatency});
      const double tiles = static_cast<double>(ceil_div(rows, r) * ceil_div(columns, c));
      const double cost = tiles * (step * static_cast<double>(steps) + kAddLanes * sums);
      if (cost < least) least = cost, best = {r, c};
    }
  }
  return best;
}

}  // namespace

bool sums_in_lanes(const PanelChoice& choice) {
  return choice.vec_axis >= 0 &&
         std::ranges::find(choice.inner, choice.vec_axis) != choice.inner.end();
}

std::optional<PanelChoice> choose_lane_sums(const GroupSpace& space, const Target& target) {
  if (space.axes().reductions.empty()) return std::nullopt;
  const LaneProduct product(space);
  if (!is_product_of_two(space, product)) return std::nullopt;
  PanelChoice c;
  c.lanes = target.lanes(4);
  c.vec_axis = axis_of_lanes(product, &c.lanes);
  if (c.vec_axis < 0) return std::nullopt;
  // Rows are what one factor alone has, columns what the other one has.
  const std::vector<const Scalar*>& reads = product.reads();
  int longest[2] = {-1, -1};
  for (const int a : product.outputs()) {
    const bool first = product.stride(*reads[0], a) != 0,
               second = product.stride(*reads[1], a) != 0;
    if (first == second) continue;
    int& chosen = longest[first ? 0 : 1];
    if (chosen < 0 || product.extent(a) >= product.extent(chosen)) chosen = a;
  }
  const auto length = [&](int axis) { return axis < 0 ? int64_t{1} : product.extent(axis); };
  if (length(longest[0]) < length(longest[1])) std::swap(longest[0], longest[1]);
  c.row_axis = longest[0];
  for (const int a : product.reduced()) {
    if (a != c.vec_axis) c.inner.push_back(a);
  }
  c.inner.push_back(c.vec_axis);
  int64_t steps = 1;
  for (const int a : c.inner) steps *= product.extent(a);
  const int root = space.axes().reductions[0];
  const int64_t rows = length_of_residue(space, root, c.row_axis, c.vec_axis);
  const Tile tile = best_tile(rows, length(longest[1]), steps / c.lanes,
                              is_conditional(product.expr()) ? 1 : 0, target);
  c.rows = tile.rows;
  c.vectors = tile.columns;
  for (const int a : product.outputs()) {
    if (a != c.row_axis && a != longest[1]) c.grid.push_back(a);
  }
  if (longest[1] >= 0) c.grid.push_back(longest[1]);
  c.rows_outermost = true;
  for (const Scalar* read : reads) {
    const bool constant = product.is_constant(*read);
    if (constant && !product.layout(*read, c.inner)) return std::nullopt;
    c.constants_in_panels.push_back(constant);
    c.vec_strides.push_back(product.stride(*read, c.vec_axis));
  }
  return c;
}

namespace {

/// grid others, row tiles, column tiles {
///   seq the reduced axes carry sums { sums' = sums + product }
///   total = sum of the lanes of sums
///   what follows
/// }
class LaneSums {
 public:
  LaneSums(const GroupSpace& space, const PanelChoice& choice, const LaneProduct& product,
           const std::string& name)
      : axes_(space.axes()),
        choice_(choice),
        product_(product),
        b_(space, name),
        root_(space.axes().reductions[0]),
        column_axis_(choice.vectors > 1 ? choice.grid.back() : -1),
        loops_(&b_, residues_of(space, root_, choice.vec_axis)) {}

  Result<ScheduledKernel> build() {
    for (size_t r = 0; r < product_.reads().size(); ++r) {
      if (!choice_.constants_in_panels[r]) continue;
      const Scalar& read = *product_.reads()[r];
      std::optional<Layout> layout = product_.layout(read, choice_.inner);
      if (!product_.is_constant(read) || !layout)
        return invalid_input(product_.tensor(read).name + " cannot be laid out along the sum");
      b_.set_layout(read.symbol, std::move(*layout));
    }
    TileLoop grid, bounded;
    grid.kind = TileLoop::Kind::kGrid;
    bounded.kind = TileLoop::Kind::kSeq;
    for (const int a : choice_.grid) {
      if (a != column_axis_) loops_.add_axis(&grid, a, 1, &bounded);
    }
    if (choice_.row_axis >= 0)
      row_var_ = loops_.add_axis(&grid, choice_.row_axis, choice_.rows, &bounded);
    if (column_axis_ >= 0)
      column_var_ = loops_.add_axis(&grid, column_axis_, choice_.vectors, &bounded);
    add_sums(bounded.dims.empty() ? &grid.body : &bounded.body);
    if (!bounded.dims.empty()) grid.body.push_back(TileNode::of(std::move(bounded)));
    b_.program().body = b_.one_nest(std::move(grid));
    ScheduledKernel out = b_.take();
    out.schedule_template = "contract " + std::to_string(choice_.rows) + "x" +
                            std::to_string(choice_.vectors) + " in lanes of " +
                            std::to_string(choice_.lanes);
    return out;
  }

 private:
  /// Of what has these axes.
  std::vector<IndexExpr> box(bool rows, bool columns) const {
    std::vector<IndexExpr> out;
    if (rows) out.push_back(loops_.coordinate(choice_.row_axis));
    if (columns) out.push_back(loops_.coordinate(column_axis_));
    return out;
  }
  Place place(bool rows, bool columns) const {
    Place out;
    if (rows && row_var_ >= 0) out.axes.push_back(place_of(row_var_, choice_.rows, 1).axes[0]);
    if (columns && column_var_ >= 0)
      out.axes.push_back(place_of(column_var_, choice_.vectors, 1).axes[0]);
    return out;
  }

  void add_sums(TileBody* body) {
    const TensorExpr& e = b_.expr(root_);
    const TileSymbolId sums = b_.add_value("sums", e.accumulator, TileSymbol::Kind::kCarry);
    TileLoop loop;
    loop.kind = TileLoop::Kind::kSeq;
    const bool conditional = is_conditional(e);
    for (const int a : choice_.inner) {
      const bool along = a == choice_.vec_axis;
      TileLoop::Dim dim = loops_.tap(a, along ? choice_.lanes : 1);
      constexpr int64_t kShort = 4, kShortWindow = 8;
      if (along) dim.unroll = product_.extent(a) <= kShort * choice_.lanes ? 0 : 2;
      // A condition on a window's axis is decided where the axis is written out.
      if (!along && conditional && product_.extent(a) <= kShortWindow) dim.unroll = 0;
      if (!loops_.takes_as_many_taps(a)) dim.unroll = 1;
      loop.dims.push_back(dim);
    }
    const bool rows = choice_.row_axis >= 0, columns = column_axis_ >= 0;
    const auto in_lanes = [&](TileVarId lane) {
      Place out = place(rows, columns);
      out.axes.push_back(place_of(lane, 1, choice_.lanes).axes[0]);
      return out;
    };
    const TileVarId lane = loop.dims.back().offset;
    std::vector<IndexExpr> at = box(rows, columns);
    at.push_back(IndexExpr::var(lane));
    ScalarRef term = b_.translate(root_, [](int, const Scalar&) -> ScalarRef {
      throw_internal_error(__FILE__, __LINE__, "lane_sums",
                           "the reduction reads a member of its group");
    });
    term = loops_.simplified(term);
    clip_bounds(b_, e, &loop, &term);
    const DType type = e.accumulator;
    loop.carries.push_back(
        carried(sums, at, scalar_constant(combiner_identity(e.combiner, type)), in_lanes(lane)));
    const ScalarRef next = combine_scalars(e.combiner, scalar_read(sums, type, at), term);
    loop.body.push_back(TileNode::of(assign_next(sums, at, next, in_lanes(lane))));
    body->push_back(TileNode::of(std::move(loop)));

    const TileVarId all =
        b_.program().add_var(b_.unique("jj"), TileVar::Kind::kAxis, choice_.lanes);
    const TileSymbolId total = b_.add_value("total", type);
    at.back() = IndexExpr::var(all);
    body->push_back(TileNode::of(assign_reduced(total, box(rows, columns), e.combiner, {all},
                                                scalar_read(sums, type, at), in_lanes(all))));
    add_rest(scalar_read(total, type, box(rows, columns)), body);
  }

  void add_rest(const ScalarRef& total, TileBody* body) {
    const auto has = [this](int p, int axis) { return axis >= 0 && has_axis(axes_, p, axis); };
    const auto of = [this, has](auto make) {
      return [this, has, make](int p) {
        return (this->*make)(has(p, choice_.row_axis), has(p, column_axis_));
      };
    };
    const EpilogueBoxes boxes{of(&LaneSums::box), of(&LaneSums::place), of(&LaneSums::place), {}};
    emit_epilogue(&b_, root_, total, boxes, body);
  }

  const GroupAxes& axes_;
  const PanelChoice& choice_;
  const LaneProduct& product_;
  TileBuilder b_;
  int root_;
  int column_axis_;
  ResidueLoops loops_;
  TileVarId row_var_ = -1, column_var_ = -1;
};

}  // namespace

Result<ScheduledKernel> build_lane_sums(const GroupSpace& space, const PanelChoice& choice,
                                        const std::string& name) {
  const LaneProduct product(space);
  const auto is_of_space = [&] {
    const size_t reads = product.reads().size();
    const auto is_side_by_side = [&](size_t r) {
      return choice.constants_in_panels[r] ||
             product.stride(*product.reads()[r], choice.vec_axis) == 1;
    };
    if (!is_product_of_two(space, product) || choice.vec_strides.size() != reads ||
        choice.constants_in_panels.size() != reads || choice.inner.back() != choice.vec_axis ||
        product.counts(choice.vec_axis) || choice.depth != 1 || choice.apart != 0 ||
        choice.staged_read >= 0 || choice.staged_factor >= 0)
      return false;
    return product.extent(choice.vec_axis) % choice.lanes == 0 && choice.lanes > 1 &&
           (choice.vectors == 1 || !choice.grid.empty()) && is_side_by_side(0) &&
           is_side_by_side(1);
  };
  if (!is_of_space())
    return invalid_input("the choice for " + name + " is no sum in the lanes of vectors");
  return LaneSums(space, choice, product, name).build();
}

}  // namespace weft

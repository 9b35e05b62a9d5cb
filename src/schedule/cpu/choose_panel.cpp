#include "schedule/cpu/choose_panel.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <ranges>
#include <set>

#include "cost/footprint.h"
#include "cost/operation_cost.h"
#include "cost/port_cycles.h"
#include "expr/analysis/dependence.h"
#include "expr/products/bfloat_products.h"
#include "expr/products/integer_products.h"
#include "group/strides.h"
#include "schedule/cpu/lanes_of_groups.h"
#include "schedule/cpu/register_tiles.h"
#include "schedule/cpu/residues.h"
#include "support/rounding.h"
#include "target/multiplies_bfloat16.h"
#include "tile/bfloat_dot.h"
#include "tile/word_dot.h"

namespace weft {

namespace {

/// A panel of the right operand that is staged on the way stays below this part of the second-level
/// cache.
int64_t panel_budget(const Target& target) { return target.l2_bytes / 2; }

/// Sets of the first cache, of which a tile's steps that share no more wait for what comes from
/// behind it. A set takes a line in some ten cycles of the clock. The vectors of 64 bytes of a core
/// that begins one in a cycle hide that; one that begins two (Cascade Lake) loses a fifth of its
/// time where steps share one set or two, a tenth where they share four, nothing from eight on.
int64_t sets_that_fill_late(const Target& target) {
  constexpr int64_t kAny = 64, kOfTwoVectors = 4;
  if (target.vector_bytes < 64) return kAny;
  return core_of(target).pace < 1 ? 0 : kOfTwoVectors;
}

/// Factors that a processor multiplies several at a time, of a panel and of what is broadcast.
struct PackedProduct {
  ScalarRef left, right, inside;  ///< of a constant on the right
  int64_t depth = 1;
};

/// Nothing where the expression is no product of bytes, or of bfloat16 that the target multiplies.
std::optional<PackedProduct> packed_product(const TensorProgram& program, const TensorExpr& e,
                                            const Target& target) {
  if (const std::optional<IntegerProduct> bytes = as_integer_product(e.body))
    return PackedProduct{bytes->left, bytes->right, bytes->inside,
                         bytes->in_words() ? kWordDotDepth : kByteDotDepth};
  if (!multiplies_bfloat16(target) || !sums_bfloat_pairs(program, e)) return std::nullopt;
  const FloatProduct floats = *as_bfloat_product(e.body);
  const size_t right = *constant_of_pairs(program, e);
  return PackedProduct{floats.reads[1 - right], floats.reads[right], floats.inside,
                       kBFloatDotDepth};
}

Multiplier multiplier_of(const Target& target, const PanelChoice& choice, int64_t products,
                         const PackedProduct* packed) {
  Multiplier out{target.vector_registers, products, choice.apart > 0};
  out.of_pairs = choice.depth > 1 && packed->left->type == DType::kI16;
  return out;
}

/// Chooses the register tile of a CPU's products or window and the loops around it.
class PanelChooser {
 public:
  /// By the register tile of this rank, or the last one; for a sum that is made in so many parts.
  PanelChooser(const GroupSpace& space, const Target& target, size_t rank, int64_t parts = 1)
      : space_(space),
        axes_(space.axes()),
        target_(target),
        root_(space.axes().reductions[0]),
        products_(std::ssize(space.axes().reductions)),
        rank_(rank),
        parts_(parts) {}

  PanelChoice run() {
    collect_reads();
    choose_axes();
    choose_staging();
    choose_staged_factor();
    c_.rows_outermost = rows_outermost();
    for (size_t r = 0; r < reads_.size(); ++r) {
      c_.vec_strides.push_back(reads_[r].vec_stride);
      c_.constants_in_panels.push_back(reads_[r].in_panels);
      if (reads_[r].scalar == staged_read_) c_.staged_read = static_cast<int>(r);
    }
    return std::move(c_);
  }

 private:
  struct Read {
    const Scalar* scalar = nullptr;
    int root = -1;  ///< the reduction whose body it stands in
    bool constant = false;
    int64_t vec_stride = 0;  ///< along the vector axis, 0 if it does not depend on it
    bool in_panels = false;  ///< a constant laid out as the loops read it
  };

  void collect_reads();
  void choose_axes();
  int choose_vector_axis(const std::vector<int>& outputs) const;
  std::vector<RootRead> grouped_reads() const;
  void choose_lanes_of_groups();
  void choose_depth();
  void choose_apart();
  void choose_tile(const std::vector<int>& outputs);
  void choose_row_axis(const std::vector<int>& outputs);
  void order_reduction();
  void choose_staging();
  void choose_staged_factor();
  int64_t reduction_depth() const;
  int64_t widest_panel(int64_t lanes) const;
  bool lies_in_steps(const Scalar& read, int vec_axis) const;
  bool in_bounds(const Scalar& read) const;
  bool along_vectors(const SumApart& sum) const;
  bool rows_outermost() const;
  bool lies_in_few_sets(const Read& read) const;
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  bool is_open(int axis) const { return axes_.axes[static_cast<size_t>(axis)].open; }
  int64_t stride(const Read& read, int axis) const {
    return stride_along(space_.program(), axes_, read.root, *read.scalar, axis);
  }
  bool depends(const Read& read, int axis) const { return stride(read, axis) != 0; }
  /// Of a read of the first reduction.
  bool depends(const Scalar& read, int axis) const {
    return stride_along(space_.program(), axes_, root_, read, axis) != 0;
  }
  int64_t distinct_bytes(const Read& read) const {
    return distinct_elements(space_.program(), space_.expr(read.root), *read.scalar) *
           byte_size(read.scalar->type);
  }

  const GroupSpace& space_;
  const GroupAxes& axes_;
  const Target& target_;
  int root_;          ///< the first reduction
  int64_t products_;  ///< reductions
  size_t rank_;
  int64_t parts_;
  std::vector<Read> reads_;
  std::optional<PackedProduct> packed_;  ///< what is summed up, where it is one
  const Scalar* staged_read_ = nullptr;  ///< non-constant operand staged in scratch
  PanelChoice c_;
};

/// Whether boxes of a stage along the axis are whole panels.
bool is_in_panels(const GroupSpace& space, int axis, int64_t panel) {
  return space.frame() && unit_of_boxes(*space.frame(), axis) % panel == 0 &&
         space.axes().axes[static_cast<size_t>(axis)].extent % panel == 0;
}

}  // namespace

/// Constant operands are laid out as the loops read them: [other axes][vector blocks][reduction in
/// loop order][vector], of which the innermost axis of the reduction is cut into steps of the
/// depth: [… steps][vector][depth].
std::optional<Layout> panel_layout(const GroupSpace& space, const PanelChoice& choice, int root,
                                   const Scalar& s) {
  const TensorProgram& program = space.program();
  const GroupAxes& axes = space.axes();
  const auto extent = [&](int axis) { return axes.axes[static_cast<size_t>(axis)].extent; };
  const Tensor& tensor = program.tensors[static_cast<size_t>(s.symbol)];
  const auto& own = axes.axis_of[static_cast<size_t>(root)];
  const int64_t panel = choice.vectors * choice.lanes;
  std::vector<int> axis_of_dim;
  for (size_t d = 0; d < s.indices.size(); ++d) {
    if (s.indices[d].is_const(0) && tensor.type.shape[d] == 1) {
      axis_of_dim.push_back(-1);
      continue;
    }
    if (!s.indices[d].is_var() || s.indices[d].var_id() >= kRuntimeIndexBase) return std::nullopt;
    const int axis = own[static_cast<size_t>(s.indices[d].var_id())];
    const bool whole = extent(axis) == tensor.type.shape[d];
    if (!whole && (axis != choice.vec_axis || !is_in_panels(space, axis, panel)))
      return std::nullopt;
    axis_of_dim.push_back(axis);
  }
  Layout layout;
  std::optional<Layout::Axis> last;  ///< within a step
  int vec_dim = -1;
  std::vector<int> order;  // dims outside the panel that are neither vector nor reduction
  for (size_t d = 0; d < axis_of_dim.size(); ++d) {
    const int a = axis_of_dim[d];
    if (a == choice.vec_axis) {
      vec_dim = static_cast<int>(d);
    } else if (a < 0 ||
               std::find(choice.inner.begin(), choice.inner.end(), a) == choice.inner.end()) {
      layout.axes.push_back({static_cast<int32_t>(d), 1, tensor.type.shape[d]});
    }
  }
  if (vec_dim < 0) return std::nullopt;
  const int64_t columns = tensor.type.shape[static_cast<size_t>(vec_dim)];
  layout.axes.push_back({vec_dim, panel, ceil_div(columns, panel)});
  for (const int a : choice.inner) {
    const int64_t step = a == choice.inner.back() ? choice.depth : 1;
    for (size_t d = 0; d < axis_of_dim.size(); ++d) {
      if (axis_of_dim[d] != a) continue;
      layout.axes.push_back({static_cast<int32_t>(d), step, ceil_div(extent(a), step)});
      if (step > 1) last = Layout::Axis{static_cast<int32_t>(d), 1, step};
    }
  }
  layout.axes.push_back({vec_dim, 1, panel});
  if (last) layout.axes.push_back(*last);
  return layout;
}

std::optional<SumApart> sum_apart(const GroupSpace& space, const PanelChoice& choice) {
  const int root = space.axes().reductions[0];
  const TensorExpr& e = space.expr(root);
  const auto count = static_cast<int64_t>(choice.inner.size());
  if (choice.apart < 1 || choice.apart > count || e.combiner != Combiner::kSum ||
      e.accumulator != DType::kF32 || e.body->type != DType::kF32)
    return std::nullopt;
  const std::set<int> moving(choice.inner.end() - choice.apart, choice.inner.end());
  const auto& own = space.axes().axis_of[static_cast<size_t>(root)];
  const auto is_along = [&own](const ScalarRef& s, const std::set<int>& axes) {
    bool along = false;
    const auto look = [&](const IndexExpr& index) {
      for (const int v : variables(index))
        along |= v < kRuntimeIndexBase && axes.contains(own[static_cast<size_t>(v)]);
    };
    visit(s, [&](const Scalar& n) {
      if (n.kind == Scalar::Kind::kIndex) look(n.index);
      for (const IndexExpr& index : n.indices) look(index);
    });
    return along;
  };
  return sum_apart(
      e.body, [&](const ScalarRef& s) { return !is_along(s, moving); },
      [&](const ScalarRef& s) { return !is_along(s, {choice.vec_axis}); });
}

void PanelChooser::collect_reads() {
  for (const int root : axes_.reductions) {
    visit(space_.expr(root).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      const Tensor& tensor = space_.program().tensors[static_cast<size_t>(s.symbol)];
      reads_.push_back({&s, root, tensor.kind == Tensor::Kind::kConstant});
    });
  }
  if (products_ == 1) packed_ = packed_product(space_.program(), space_.expr(root_), target_);
}

void PanelChooser::choose_axes() {
  const TensorExpr& e = space_.expr(root_);
  std::vector<int> outputs;
  for (int d = 0; d < e.output_rank(); ++d) {
    const int a = axes_.axis_of[static_cast<size_t>(root_)][static_cast<size_t>(d)];
    if (extent(a) != 1) outputs.push_back(a);
  }
  c_.vec_axis = choose_vector_axis(outputs);
  c_.lanes = target_.lanes(4);
  if (c_.vec_axis >= 0) {
    while (c_.lanes > 4 && c_.lanes / 2 >= extent(c_.vec_axis)) c_.lanes /= 2;
  }
  choose_row_axis(outputs);
  order_reduction();
  choose_lanes_of_groups();
  choose_depth();
  choose_apart();
  choose_tile(outputs);
  for (const int a : outputs) {
    if (a != c_.vec_axis && a != c_.row_axis) c_.grid.push_back(a);
  }
  std::sort(c_.grid.begin(), c_.grid.end(), [&](int a, int c) {
    const int64_t sa = output_stride_along(space_.program(), axes_, space_.group(), root_, a);
    const int64_t sc = output_stride_along(space_.program(), axes_, space_.group(), root_, c);
    return sa != sc ? sa > sc : a < c;
  });
}

/// Contiguous in what is written, long enough to fill a vector.
int PanelChooser::choose_vector_axis(const std::vector<int>& outputs) const {
  const auto width = static_cast<double>(target_.lanes(4));
  int chosen = -1;
  double best = -1e9;
  for (const int a : outputs) {
    // What is written once counts little beside what every step of the reduction reads.
    double score = 0;
    for (int p = 0; p < space_.size(); ++p) {
      const int64_t along = output_stride_along(space_.program(), axes_, space_.group(), p, a);
      if (along == 1) score = 2;
      // Of two that are as good the one whose elements lie closer together.
      if (along > 1) score -= std::log2(static_cast<double>(along)) / 100;
    }
    for (const Read& r : reads_) {
      if (lies_in_steps(*r.scalar, a)) {
        score += 6;
        continue;
      }
      const int64_t along = stride(r, a);
      if (along == 1 || (along != 0 && r.constant)) score += 1;
      if (along != 0 && along != 1 && !r.constant) score -= 6;
      // Packed products take a constant in panels and broadcast what runs along the sum.
      if (packed_ && along != 0) score += r.constant ? 6 : -6;
    }
    score += 6 * std::min(1.0, static_cast<double>(extent(a)) / width);
    if (score > best) {
      best = score;
      chosen = a;
    }
  }
  return chosen;
}

/// Reads of channels in groups, of which lanes that follow each other have the same or leap.
std::vector<RootRead> PanelChooser::grouped_reads() const {
  std::vector<RootRead> out;
  for (const Read& r : reads_) {
    if (!r.constant && c_.vec_axis >= 0 && stride(r, c_.vec_axis) < 0)
      out.push_back({r.root, r.scalar});
  }
  return out;
}

/// Taps that slide along the rows run innermost where channels come in groups: rows take each
/// element that was broadcast or permuted from registers.
void PanelChooser::choose_lanes_of_groups() {
  const std::vector<RootRead> reads = grouped_reads();
  if (reads.empty()) return;
  double shared = 1;
  if (c_.row_axis >= 0 && !packed_ && !c_.inner.empty()) {
    const auto shared_by_all = [&](int a) {
      return std::ranges::min(reads | std::views::transform([&](const RootRead& r) {
                                return steps_of_an_element(space_, r, c_.row_axis, a);
                              }));
    };
    const auto most = std::ranges::max_element(c_.inner, {}, shared_by_all);
    shared = shared_by_all(*most);
    if (shared > 1) std::rotate(most, most + 1, c_.inner.end());
  }
  c_.lanes = lanes_of_groups(space_, reads, c_.vec_axis, c_.lanes, shared);
}

/// Whether the right factor of a packed product, which varies, lies as panels do: the steps that an
/// instruction adds up side by side, in a vector of columns behind each other (expr/pack_factors).
bool PanelChooser::lies_in_steps(const Scalar& read, int vec_axis) const {
  if (!packed_ || packed_->right.get() != &read) return false;
  const TensorExpr& e = space_.expr(root_);
  const IndexExpr& last = read.indices.back();
  if (!last.is_var() || last.var_id() < e.output_rank() || last.var_id() >= e.axis_count() ||
      e.range(last.var_id()).hi + 1 != packed_->depth)
    return false;
  return stride_along(space_.program(), axes_, root_, read, vec_axis) == packed_->depth;
}

/// Bytes and bfloat16 are multiplied several at a time where the left factor has them side by side
/// and the right one lies so: a constant in its panel, another tensor in an order for that.
void PanelChooser::choose_depth() {
  if (!packed_ || c_.vec_axis < 0 || c_.inner.empty()) return;
  const int last = c_.inner.back();
  const Scalar &left = *packed_->left, &right = *packed_->right;
  if (depends(left, c_.vec_axis) || !depends(right, c_.vec_axis) || extent(last) < packed_->depth ||
      stride_along(space_.program(), axes_, root_, left, last) != 1)
    return;
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  bool padded = false;  // along the axis itself: its steps would begin anywhere
  if (packed_->inside) {
    visit(packed_->inside, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kIndex) return;
      for (const int v : variables(s.index)) padded |= own[static_cast<size_t>(v)] == last;
    });
  }
  const bool constant =
      space_.program().tensors[static_cast<size_t>(right.symbol)].kind == Tensor::Kind::kConstant;
  const bool varies = !constant && lies_in_steps(right, c_.vec_axis);
  if (padded || (!constant && !varies)) return;
  c_.depth = packed_->depth;
  if (!varies && !panel_layout(space_, c_, root_, right)) c_.depth = 1;
}

/// Scales and zero points of blocks come behind the sum of a block, where they are not shared by
/// many rows: the longest blocks along which as much is the same as along the shortest.
void PanelChooser::choose_apart() {
  constexpr int64_t kShortest = 8, kMostRows = 2;
  const bool few_rows =
      c_.row_axis < 0 || (!is_open(c_.row_axis) && extent(c_.row_axis) <= kMostRows);
  if (!few_rows || c_.vec_axis < 0 || c_.depth > 1 || products_ > 1) return;
  const auto with = [&](int64_t apart) {
    PanelChoice choice = c_;
    choice.apart = apart;
    return sum_apart(space_, choice);
  };
  const auto same = [](const ScalarRef& a, const ScalarRef& b) {
    return a == nullptr || b == nullptr ? a == b : equal(a, b);
  };
  const std::optional<SumApart> shortest = with(1);
  if (!shortest || !along_vectors(*shortest)) return;
  int64_t apart = 1, steps = extent(c_.inner.back());
  while (apart < std::ssize(c_.inner)) {
    const std::optional<SumApart> longer = with(apart + 1);
    if (!longer || !same(longer->scale, shortest->scale) || !same(longer->zero, shortest->zero))
      break;
    ++apart;
    steps *= extent(c_.inner[c_.inner.size() - static_cast<size_t>(apart)]);
  }
  if (steps >= kShortest) c_.apart = apart;
}

/// Whether what comes behind is another for each column: otherwise it costs nothing in the sum.
bool PanelChooser::along_vectors(const SumApart& sum) const {
  bool found = false;
  for (const ScalarRef& part : {sum.scale, sum.zero}) {
    if (!part) continue;
    visit(part, [&](const Scalar& s) {
      found |= s.kind == Scalar::Kind::kRead && depends(s, c_.vec_axis);
    });
  }
  return found;
}

void PanelChooser::choose_tile(const std::vector<int>& outputs) {
  // Coefficients and bounds of an elementary function.
  constexpr int64_t kNumbersOfFunctions = 10;
  const bool in_words = packed_ && c_.depth > 1 && packed_->left->type == DType::kI16;
  RowOperand operand{.depth = ceil_div(reduction_depth(), parts_ * (in_words ? c_.depth : 1)),
                     .costly = is_costly(space_.expr(root_).body)};
  for (const Read& r : reads_) {
    if (c_.row_axis < 0) continue;
    if (c_.vec_axis >= 0 && depends(r, c_.vec_axis)) {
      operand.per_vector |= depends(r, c_.row_axis);
      operand.panels_again |=
          std::ranges::any_of(outputs, [&](int a) { return a != c_.row_axis && !depends(r, a); });
      continue;
    }
    operand.row_stride = std::max<int64_t>(0, stride(r, c_.row_axis)) * byte_size(r.scalar->type);
    operand.row_bytes = distinct_bytes(r);
  }
  const TiledResult result{.rows = length_of_residue(space_, root_, c_.row_axis, c_.vec_axis),
                           .columns = c_.vec_axis >= 0 ? extent(c_.vec_axis) : 1,
                           .open_rows = c_.row_axis >= 0 && is_open(c_.row_axis),
                           .open_columns = c_.vec_axis >= 0 && is_open(c_.vec_axis)};
  Multiplier multiplier = multiplier_of(target_, c_, products_, packed_ ? &*packed_ : nullptr);
  if (operand.costly) multiplier.registers -= kNumbersOfFunctions;
  const auto rank = [&](int64_t lanes) {
    return rank_register_tiles(result, lanes, widest_panel(lanes), operand, multiplier, target_);
  };
  std::vector<RegisterTile> tiles = rank(c_.lanes);
  // 24 columns fill three vectors of eight lanes, and two of sixteen to three quarters.
  const bool halves = core_of(target_).begins_halves && c_.lanes == target_.lanes(4) &&
                      c_.vec_axis >= 0 && result.rows > 1 && c_.depth == 1 && !multiplier.apart;
  if (halves) {
    std::vector<RegisterTile> both;
    std::ranges::merge(tiles, rank(c_.lanes / 2), std::back_inserter(both), {}, &RegisterTile::cost,
                       &RegisterTile::cost);
    tiles = std::move(both);
  }
  const RegisterTile& tile = tiles[std::min(rank_, tiles.size() - 1)];
  c_.lanes = tile.lanes;
  c_.rows = tile.rows;
  c_.vectors = tile.vectors;
}

/// Row axis: one along which an operand of the vector axis is read again; the output's next axis
/// inwards is preferred. Without such an axis rows only save loads of the other operand: a strided
/// vector operand, which is staged for one row tile after the other, does without. Of axes that are
/// as good the one whose rows lie closer together: a page of each is many pages.
void PanelChooser::choose_row_axis(const std::vector<int>& outputs) {
  double best_row = -1;
  for (const int a : outputs) {
    if (a == c_.vec_axis) continue;
    bool reuses = c_.vec_axis < 0, stageable = true;
    int64_t apart = 1;
    for (const Read& r : reads_) {
      if (c_.vec_axis < 0 || !depends(r, c_.vec_axis)) {
        apart = std::max(apart, stride(r, a));
        continue;
      }
      reuses |= !depends(r, a);
      stageable &= r.constant || stride(r, c_.vec_axis) <= 1 || !depends(r, a);
    }
    if (!stageable) continue;
    const int64_t n = extent(a);
    double score = (reuses ? 10.0 : 1.0) + std::min<double>(static_cast<double>(n), 14) / 4;
    score -= std::log2(static_cast<double>(apart)) / 100;
    const int64_t out = output_stride_along(space_.program(), axes_, space_.group(), root_, a);
    if (c_.vec_axis >= 0 && out == extent(c_.vec_axis)) score += 1;
    if (score > best_row) {
      best_row = score;
      c_.row_axis = a;
    }
  }
}

void PanelChooser::order_reduction() {
  const TensorExpr& e = space_.expr(root_);
  for (int a = e.output_rank(); a < e.axis_count(); ++a) {
    const int axis = axes_.axis_of[static_cast<size_t>(root_)][static_cast<size_t>(a)];
    if (extent(axis) != 1) c_.inner.push_back(axis);
  }
  // The scalar operand's contiguous axis runs innermost, one along which it lies anywhere
  // outermost.
  constexpr int64_t kAnywhere = int64_t{1} << 60;
  const auto widest = [&](int axis) {
    int64_t s = 0;
    for (const Read& r : reads_) {
      if (c_.vec_axis >= 0 && depends(r, c_.vec_axis) && reads_.size() > 1) continue;
      const int64_t along = stride(r, axis);
      s = std::max(s, along < 0 ? kAnywhere : along);
    }
    return s;
  };
  std::sort(c_.inner.begin(), c_.inner.end(), [&](int a, int c) {
    const int64_t sa = widest(a), sc = widest(c);
    return sa != sc ? sa > sc : a < c;
  });
}

int64_t PanelChooser::reduction_depth() const {
  const TensorExpr& e = space_.expr(root_);
  int64_t depth = 1;
  for (const int64_t n : e.reduce_extents) depth *= n;
  return depth;
}

/// Vectors of so many lanes in the widest panel of a strided operand that fits the budget.
int64_t PanelChooser::widest_panel(int64_t lanes) const {
  int64_t widest = 2 * kMostVectors;
  for (const Read& r : reads_) {
    if (r.constant || c_.vec_axis < 0) continue;
    if (stride(r, c_.vec_axis) <= 1) continue;
    const int64_t bytes = reduction_depth() * lanes * byte_size(r.scalar->type);
    widest = std::min(widest, std::max<int64_t>(1, panel_budget(target_) / bytes));
  }
  return widest;
}

/// Whether the read stays inside its tensor for all values of its axes: it may be moved out of the
/// branch that it stands in.
bool PanelChooser::in_bounds(const Scalar& read) const {
  const TensorExpr& e = space_.expr(root_);
  const Shape& shape = space_.program().tensors[static_cast<size_t>(read.symbol)].type.shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Interval reach = range_of(read.indices[d], [&](int id) { return e.range(id); });
    if (reach.lo < 0 || reach.hi >= shape[d]) return false;
  }
  return true;
}

/// Whether the steps of a sum, one behind the other, lie so far apart that their lines share few
/// sets of the second-level cache, or of the first where tiles wait for what comes from behind it,
/// and many tiles of rows read them again: all but the first would find them thrown out. A panel
/// that is staged belongs to one thread, and takes a copy for all its tiles of rows.
bool PanelChooser::lies_in_few_sets(const Read& read) const {
  constexpr int64_t kWays = kSecondCacheWays, kPage = 4096, kFewestTiles = 4, kFewestInFirst = 8;
  if (read.constant || c_.row_axis < 0 || c_.inner.empty()) return false;
  double tiles = is_open(c_.row_axis)
                     ? std::numeric_limits<double>::max()
                     : static_cast<double>(extent(c_.row_axis)) / static_cast<double>(c_.rows);
  for (const int a : c_.grid) {
    if (!depends(read, a)) tiles *= static_cast<double>(extent(a));
  }
  const int64_t width = c_.vectors * c_.lanes * byte_size(read.scalar->type);
  const int64_t step = stride(read, c_.inner.back()) * byte_size(read.scalar->type);
  int64_t panels = ceil_div(extent(c_.vec_axis), c_.vectors * c_.lanes);
  for (const int a : c_.grid) panels *= extent(a);
  if (step <= width || panels < 2 * target_.threads) return false;
  // Steps of outer axes that are whole steps of the innermost one go on in the same sets.
  const bool go_on = std::ranges::all_of(c_.inner, [&](int a) {
    return (stride(read, a) * byte_size(read.scalar->type)) % step == 0 && !is_open(a);
  });
  const int64_t steps = go_on ? reduction_depth() : extent(c_.inner.back());
  const auto too_many_for = [&](int64_t cache, int64_t way) {
    return steps > sets_reached(step, way) * (cache / way) / 2;
  };
  // Ways of the first cache are pages.
  return (tiles >= kFewestTiles && too_many_for(target_.l2_bytes, target_.l2_bytes / kWays)) ||
         (tiles >= kFewestInFirst && sets_reached(step, kPage) <= sets_that_fill_late(target_) &&
          too_many_for(target_.l1_bytes, kPage));
}

void PanelChooser::choose_staging() {
  if (c_.vec_axis < 0) return;
  for (Read& r : reads_) {
    r.vec_stride = stride(r, c_.vec_axis);
    if (r.vec_stride == 0 || (c_.depth > 1 && lies_in_steps(*r.scalar, c_.vec_axis))) continue;
    // A tensor read twice in different ways keeps its order.
    const bool alone = std::count_if(reads_.begin(), reads_.end(), [&](const Read& o) {
                         return o.scalar->symbol == r.scalar->symbol;
                       }) == 1;
    r.in_panels = r.constant && alone && panel_layout(space_, c_, r.root, *r.scalar).has_value();
    if (r.in_panels || products_ > 1) continue;
    const bool same_for_all_rows = c_.row_axis < 0 || !depends(r, c_.row_axis);
    // Loops of residues, which skip terms, are of plain sums alone: they save more than a panel.
    const bool skips = r.vec_stride == 1 && !residues_of(space_, root_, c_.vec_axis).empty();
    const bool scattered = r.vec_stride != 1 || (!skips && lies_in_few_sets(r));
    if (scattered && same_for_all_rows && staged_read_ == nullptr && c_.apart == 0 &&
        r.scalar->operands.empty() && in_bounds(*r.scalar) &&
        reduction_depth() * c_.vectors * c_.lanes * byte_size(r.scalar->type) <=
            panel_budget(target_)) {
      staged_read_ = r.scalar;
    }
  }
}

/// A factor that is computed of constants, the same for all rows, is computed once for a panel
/// where several tiles of rows multiply it.
void PanelChooser::choose_staged_factor() {
  const ScalarRef& body = space_.expr(root_).body;
  const bool product = body->kind == Scalar::Kind::kApply && body->op == ScalarOp::kMul;
  const bool tiled = c_.row_axis >= 0 && c_.vec_axis >= 0 &&
                     (is_open(c_.row_axis) || extent(c_.row_axis) >= 2 * c_.rows);
  const int64_t bytes = reduction_depth() * c_.vectors * c_.lanes * byte_size(body->type);
  if (!product || !tiled || products_ > 1 || c_.depth > 1 || c_.apart > 0 ||
      staged_read_ != nullptr || bytes > panel_budget(target_))
    return;
  for (const int side : {0, 1}) {
    const ScalarRef& factor = body->operands[static_cast<size_t>(side)];
    const bool computed = operation_count(factor) > 1;
    bool along = false;
    visit(factor, [&](const Scalar& s) {
      along |= s.kind == Scalar::Kind::kRead && depends(s, c_.vec_axis);
    });
    if (computed && along && stays_for_panel(space_, c_, factor)) c_.staged_factor = side;
  }
}

/// Whether all of the vector operand stays in the second-level cache while the rows go by: then
/// threads divide the rows, so that what a thread writes is what it reads in the next kernel, and
/// the row operand is read once. A larger operand is walked a panel at a time, each for all rows.
/// Of an open number of rows it is supposed that they are many.
bool PanelChooser::rows_outermost() const {
  if (staged_read_ != nullptr || c_.staged_factor >= 0 || c_.vec_axis < 0) return false;
  int64_t panels = 0, rows = 0;
  for (const Read& r : reads_) {
    (r.vec_stride != 0 ? panels : rows) += distinct_bytes(r);
  }
  const bool many_rows = rows > panels || (c_.row_axis >= 0 && is_open(c_.row_axis));
  return panels <= panel_budget(target_) && many_rows;
}

bool stays_for_panel(const GroupSpace& space, const PanelChoice& choice, const ScalarRef& factor) {
  const GroupAxes& axes = space.axes();
  const int root = axes.reductions[0];
  const std::vector<int>& own = axes.axis_of[static_cast<size_t>(root)];
  const auto moves_along = [&](const Scalar& s, int axis) {
    if (s.kind == Scalar::Kind::kRead)
      return stride_along(space.program(), axes, root, s, axis) != 0;
    return std::ranges::any_of(variables(s.index), [&](int v) {
      return v < std::ssize(own) && own[static_cast<size_t>(v)] == axis;
    });
  };
  bool stays = true;
  visit(factor, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead && s.kind != Scalar::Kind::kIndex) return;
    if (s.kind == Scalar::Kind::kRead)
      stays &=
          space.program().tensors[static_cast<size_t>(s.symbol)].kind == Tensor::Kind::kConstant;
    stays &= choice.row_axis < 0 || !moves_along(s, choice.row_axis);
    for (const int a : choice.grid) stays &= !moves_along(s, a);
  });
  return stays;
}

PanelChoice choose_panel(const GroupSpace& space, const Target& target, int64_t parts) {
  return PanelChooser(space, target, 0, parts).run();
}

std::vector<PanelChoice> other_panels(const GroupSpace& space, const Target& target) {
  constexpr size_t kMost = 16;
  const PanelChoice best = choose_panel(space, target);
  std::vector<PanelChoice> out;
  // Whether threads divide the rows or the panels depends on caches, of which the model knows sizes
  // alone.
  if (best.staged_read < 0 && best.staged_factor < 0 && best.vec_axis >= 0) {
    out.push_back(best);
    out.back().rows_outermost = !best.rows_outermost;
  }
  for (size_t rank = 1; rank <= kMost; ++rank) {
    PanelChoice next = PanelChooser(space, target, rank).run();
    if (next == best || std::ranges::find(out, next) != out.end()) break;
    out.push_back(std::move(next));
  }
  return out;
}

}  // namespace weft

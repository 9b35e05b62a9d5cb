#include "schedule/gpu/matrix_product.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "expr/analysis/dependence.h"
#include "fmt/format.h"
#include "group/strides.h"
#include "schedule/gpu/product_factor.h"
#include "schedule/writer/best_positions.h"
#include "schedule/writer/tile_builder.h"
#include "support/rounding.h"
#include "target/unit_peak.h"
#include "tile/padded_read.h"

namespace weft {

namespace {

constexpr int64_t kAccessBytes = 16;
/// Beyond this share of work on padding the plain cores do as well.
constexpr int64_t kMostPadding = 8;
constexpr int64_t kCoreDepth = 8;  ///< of the shortest step on plain cores

Error refuse(std::string reason) { return {ErrorCode::kUnsupported, std::move(reason)}; }

class ProductFinder {
 public:
  ProductFinder(const GroupSpace& space, const Target& target)
      : space_(space), axes_(space.axes()), target_(target) {
    product_.root = axes_.reductions[0];
  }

  Result<MatrixProduct> run() {
    WEFT_RETURN_IF_ERROR(find_operands());
    WEFT_RETURN_IF_ERROR(sort_axes());
    WEFT_RETURN_IF_ERROR(find_whole());
    WEFT_RETURN_IF_ERROR(describe());
    return std::move(product_);
  }

 private:
  const TensorExpr& expr(int p) const { return space_.expr(p); }
  const std::string& name(int p) const { return space_.name_of(p); }
  const std::vector<int>& own(int p) const { return axes_.axis_of[static_cast<size_t>(p)]; }
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  int64_t stride(const ProductOperand& operand, int axis) const {
    return stride_along(space_.program(), axes_, product_.root, *operand.read, axis);
  }
  int64_t result_stride(int axis) const {
    return output_stride_along(space_.program(), axes_, space_.group(), product_.root, axis);
  }
  Status find_operands();
  bool find_operand(const ScalarRef& factor, ProductOperand* operand) const;
  bool depends(const ProductOperand& operand, int axis) const;
  Status sort_axes();
  void flatten_result(std::vector<int> axes, FlatAxis* flat);
  Status order_depth();
  bool can_be_laid_out(const ProductOperand& operand) const;
  void lay_out(ProductOperand* operand, const FlatAxis& across) const;
  int64_t run_along(const ProductOperand& operand, const FlatAxis& along) const;
  Status find_whole();
  bool ends_in_rows() const;
  Status describe();
  int64_t epilogue_bytes() const;
  bool is_kept(TensorId t) const {
    return space_.frame() && space_.frame()->kept[static_cast<size_t>(t)];
  }
  bool reads_kept(const ProductOperand& operand) const;
  bool copies_padded(const ProductOperand& operand) const;
  bool lies_in_place(const ProductOperand& operand, const FlatAxis& across,
                     int64_t least_across) const;

  const GroupSpace& space_;
  const GroupAxes& axes_;
  const Target& target_;
  MatrixProduct product_;
  MatrixProblem::Whole whole_ = MatrixProblem::Whole::kNeither;
};

bool ProductFinder::depends(const ProductOperand& operand, int axis) const {
  const auto& list = own(product_.root);
  const auto at = std::find(list.begin(), list.end(), axis);
  if (at == list.end()) return false;
  const auto var = static_cast<int>(at - list.begin());
  bool used = false;
  visit(operand.factor, [&](const Scalar& s) {
    used |= s.kind == Scalar::Kind::kIndex && uses_var(s.index, var);
    for (const IndexExpr& e : s.indices) used |= uses_var(e, var);
  });
  return used;
}

bool ProductFinder::find_operand(const ScalarRef& factor, ProductOperand* operand) const {
  operand->factor = in_narrowest_type(factor);
  int64_t most = 0;
  visit(operand->factor, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    int64_t reach = 1;
    const auto& list = own(product_.root);
    for (size_t v = 0; v < list.size(); ++v) {
      const bool used = std::any_of(s.indices.begin(), s.indices.end(), [&](const IndexExpr& e) {
        return uses_var(e, static_cast<int>(v));
      });
      if (used) reach *= extent(list[v]);
    }
    if (reach <= most) return;
    most = reach;
    operand->read = &s;
  });
  return operand->read != nullptr;
}

Status ProductFinder::find_operands() {
  const TensorExpr& e = expr(product_.root);
  const ScalarRef& body = e.body;
  if (e.combiner != Combiner::kSum || e.accumulator != DType::kF32 ||
      body->kind != Scalar::Kind::kApply || body->op != ScalarOp::kMul ||
      body->type != DType::kF32 || !find_operand(body->operands[0], &product_.left) ||
      !find_operand(body->operands[1], &product_.right)) {
    return refuse(name(product_.root) + " is no product of two matrices");
  }
  const DType type = product_.type = product_.left.factor->type;
  const bool halves = type == DType::kF16 || type == DType::kBF16;
  product_.on_units = halves || target_.reduced_float32;
  if (!(halves || type == DType::kF32) || product_.right.factor->type != type) {
    return refuse("no matrix unit takes the operands of " + name(product_.root));
  }
  return {};
}

Status ProductFinder::sort_axes() {
  const TensorExpr& e = expr(product_.root);
  std::vector<int> left, right;
  for (int d = 0; d < e.axis_count(); ++d) {
    const int axis = own(product_.root)[static_cast<size_t>(d)];
    if (extent(axis) == 1) continue;
    const bool in_left = depends(product_.left, axis), in_right = depends(product_.right, axis);
    if (d >= e.output_rank()) {
      if (!in_left || !in_right) return refuse("a factor of the whole sum");
      product_.depth.axes.push_back(axis);
    } else if (in_left == in_right) {
      product_.batch.push_back(axis);
    } else {
      (in_left ? left : right).push_back(axis);
    }
  }
  if (left.empty() || right.empty() || product_.depth.axes.empty())
    return refuse(name(product_.root) + " lacks rows, columns or depth");
  // Columns are what the result has one element after another.
  const auto nearest = [&](const std::vector<int>& list) {
    int64_t least = INT64_MAX;
    for (const int a : list) least = std::min(least, result_stride(a));
    return least;
  };
  if (nearest(left) < nearest(right)) {
    std::swap(left, right);
    std::swap(product_.left, product_.right);
  }
  flatten_result(std::move(left), &product_.rows);
  flatten_result(std::move(right), &product_.columns);
  return order_depth();
}

/// The innermost axes that lie behind each other in the result become one; the others are walked by
/// the grid.
void ProductFinder::flatten_result(std::vector<int> axes, FlatAxis* flat) {
  std::sort(axes.begin(), axes.end(), [&](int a, int c) {
    const int64_t x = result_stride(a), y = result_stride(c);
    return x != y ? x > y : a < c;
  });
  // A stage's axes begin and end anywhere.
  size_t first = axes.size() - 1;
  while (first > 0 && !space_.frame() &&
         result_stride(axes[first - 1]) == result_stride(axes[first]) * extent(axes[first])) {
    --first;
  }
  product_.batch.insert(product_.batch.end(), axes.begin(),
                        axes.begin() + static_cast<ptrdiff_t>(first));
  flat->axes.assign(axes.begin() + static_cast<ptrdiff_t>(first), axes.end());
  for (const int a : flat->axes) flat->extent *= extent(a);
}

/// A plain read whose axes are not folded together out of several.
bool copies_directly(const ProductOperand& operand) {
  return operand.factor->kind == Scalar::Kind::kRead && operand.factor->operands.empty() &&
         !operand.factor->fill;
}

/// The order of the operand that is a plain tensor, so that its elements lie behind each other; of
/// the one whose order is given where the other is laid out for the product.
Status ProductFinder::order_depth() {
  FlatAxis& depth = product_.depth;
  ProductOperand &left = product_.left, &right = product_.right;
  const auto plain = [&](const ProductOperand& o) {
    return std::all_of(depth.axes.begin(), depth.axes.end(),
                       [&](int a) { return stride(o, a) > 0; });
  };
  const bool lays_left = can_be_laid_out(left), lays_right = can_be_laid_out(right);
  const bool by_left =
      lays_left != lays_right ? lays_right && plain(left) : plain(left) || !plain(right);
  const ProductOperand& first = by_left ? left : right;
  std::sort(depth.axes.begin(), depth.axes.end(), [&](int a, int c) {
    const int64_t x = stride(first, a), y = stride(first, c);
    return x != y ? x > y : a < c;
  });
  for (const int a : depth.axes) depth.extent *= extent(a);
  left.in_block = reads_kept(left);
  right.in_block = reads_kept(right);
  if (depth.axes.size() > 1 && (left.in_block || right.in_block))
    return refuse(name(product_.root) + " sums what a block keeps over several axes");
  for (auto* operand : {&left, &right}) {
    const FlatAxis& across = operand == &left ? product_.rows : product_.columns;
    operand->along_depth = run_along(*operand, depth) >= run_along(*operand, across);
  }
  if (lays_left) lay_out(&left, product_.rows);
  if (lays_right) lay_out(&right, product_.columns);
  return {};
}

/// Whether the operand is a constant, element by element, whose order in memory is no one else's.
bool ProductFinder::can_be_laid_out(const ProductOperand& operand) const {
  if (!target_.libraries.empty() || !copies_directly(operand)) return false;
  const Tensor& tensor = space_.program().tensors[static_cast<size_t>(operand.read->symbol)];
  if (tensor.kind != Tensor::Kind::kConstant || !tensor.layout.is_row_major() ||
      operand.factor->type != tensor.type.dtype)
    return false;
  std::set<int> met;
  return std::ranges::all_of(operand.read->indices, [&](const IndexExpr& e) {
    if (e.is_const()) return true;
    return e.is_var() && e.var_id() < kRuntimeIndexBase && met.insert(e.var_id()).second;
  });
}

/// Puts what an access goes along innermost, where it does not lie so already: the columns that
/// cores read out of rows of shared memory, else the depth.
void ProductFinder::lay_out(ProductOperand* operand, const FlatAxis& across) const {
  const FlatAxis& depth = product_.depth;
  const int64_t vec = kAccessBytes / byte_size(product_.type);
  const bool as_columns = operand == &product_.right && !product_.on_units;
  const int64_t run = run_along(*operand, across);
  if (std::max(run, as_columns ? 1 : run_along(*operand, depth)) % vec == 0) return;
  const bool along_depth = as_columns ? across.extent % vec != 0 && depth.extent % vec == 0
                                      : depth.extent % vec == 0 || across.extent % vec != 0;
  const auto& list = own(product_.root);
  const auto place = [&](int64_t d) {
    const IndexExpr& index = operand->read->indices[static_cast<size_t>(d)];
    if (index.is_const()) return std::pair<int64_t, int64_t>(0, d);
    const int axis = list[static_cast<size_t>(index.var_id())];
    for (const FlatAxis* flat : {&across, &depth}) {
      const auto at = std::ranges::find(flat->axes, axis);
      if (at == flat->axes.end()) continue;
      return std::pair<int64_t, int64_t>((flat == &depth) == along_depth ? 2 : 1,
                                         at - flat->axes.begin());
    }
    return std::pair<int64_t, int64_t>(0, d);
  };
  std::vector<int64_t> order(operand->read->indices.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, place);
  operand->along_depth = along_depth;
  if (!std::ranges::is_sorted(order)) operand->order = std::move(order);
}

/// Elements that lie behind each other along an axis.
int64_t ProductFinder::run_along(const ProductOperand& operand, const FlatAxis& along) const {
  int64_t elements = 1;
  for (size_t i = along.axes.size(); i-- > 0;) {
    if (stride(operand, along.axes[i]) != elements) break;
    elements *= extent(along.axes[i]);
  }
  return elements;
}

/// All reductions behind the product run over the same axes of its result, and these are one index
/// of the tile.
Status ProductFinder::find_whole() {
  const auto& at = axes_.reductions;
  const int root = product_.root;
  std::set<int> reduced;
  for (size_t r = 1; r < at.size(); ++r) {
    const int p = at[r];
    if (axes_.level[static_cast<size_t>(p)] == 0)
      return refuse(name(p) + " does not reduce a result of " + name(root));
    std::set<int> here;
    for (size_t d = static_cast<size_t>(expr(p).output_rank()); d < own(p).size(); ++d) {
      if (extent(own(p)[d]) > 1) here.insert(own(p)[d]);
    }
    if (r > 1 && here != reduced)
      return refuse(name(p) + " and " + name(at[1]) + " reduce over different axes");
    if (!keeps_position(expr(p)) && tile_combiner(expr(p).combiner) == TileCombiner::kNone)
      return refuse(name(p) + " has no form for the threads of a block");
    reduced = std::move(here);
  }
  if (at.size() < 2 || reduced.empty()) return {};
  const auto is = [&](const FlatAxis& flat) {
    return std::set<int>(flat.axes.begin(), flat.axes.end()) == reduced;
  };
  if (is(product_.columns)) {
    whole_ = MatrixProblem::Whole::kColumns;
  } else if (is(product_.rows)) {
    whole_ = MatrixProblem::Whole::kRows;
  } else {
    return refuse(name(at[1]) + " reduces over other axes than the rows or the columns of " +
                  name(root));
  }
  return {};
}

/// Whether all that is reduced runs over the columns, and nothing of a row's elements depends on
/// what is.
bool ProductFinder::ends_in_rows() const {
  if (whole_ != MatrixProblem::Whole::kColumns) return false;
  const auto of_rows = [&](int p) {
    return p != product_.root && std::ranges::none_of(product_.columns.axes, [&](int a) {
             return space_.output_has_axis(p, a);
           });
  };
  for (int p = 0; p < space_.size(); ++p) {
    if (p != product_.root && space_.reduces(p) && keeps_position(expr(p))) return false;
    if (of_rows(p) && !space_.reduces(p)) continue;
    bool reads_row = false;
    visit(expr(p).body, [&](const Scalar& s) {
      const int producer = s.kind == Scalar::Kind::kRead ? axes_.producer(s.symbol) : -1;
      reads_row |= producer >= 0 && of_rows(producer);
    });
    if (reads_row) return false;
  }
  return true;
}

/// A window's read with its padding, of accesses that copies can be.
bool ProductFinder::copies_padded(const ProductOperand& operand) const {
  constexpr int64_t kNarrowestCopy = 4;
  const FlatAxis& across = &operand == &product_.left ? product_.rows : product_.columns;
  const int64_t run = run_along(operand, operand.along_depth ? product_.depth : across);
  return padded_read(operand.factor).has_value() &&
         run * byte_size(product_.type) % kNarrowestCopy == 0;
}

bool ProductFinder::reads_kept(const ProductOperand& operand) const {
  bool found = false;
  visit(operand.factor, [&](const Scalar& s) {
    found |= s.kind == Scalar::Kind::kRead && is_kept(static_cast<TensorId>(s.symbol));
  });
  return found;
}

/// Whether an operand is what the block keeps, element by element, in whole tiles.
bool ProductFinder::lies_in_place(const ProductOperand& operand, const FlatAxis& across,
                                  int64_t least_across) const {
  if (!operand.in_block || !copies_directly(operand) || product_.depth.axes.size() != 1 ||
      across.extent % least_across != 0 || product_.depth.extent % product_.problem.depth != 0)
    return false;
  std::set<int> met;
  return std::ranges::all_of(operand.read->indices, [&](const IndexExpr& e) {
    if (e.is_const()) return true;
    return e.is_var() && e.var_id() < kRuntimeIndexBase && met.insert(e.var_id()).second;
  });
}

/// Of what is stored, and of what is read beside the operands, for one result; what a block keeps
/// moves no farther.
int64_t ProductFinder::epilogue_bytes() const {
  double bytes = 0;
  for (const TensorId t : space_.group().outputs) {
    if (is_kept(t)) continue;
    const TensorType& type = space_.program().tensors[static_cast<size_t>(t)].type;
    bytes += static_cast<double>(checked_byte_size(type.dtype, type.shape).value_or(INT64_MAX));
  }
  std::map<TensorId, int64_t> read;
  for (int p = 0; p < space_.size(); ++p) {
    if (p == product_.root) continue;
    for (const auto& [t, n] : bytes_read_by_tensor(space_.program(), expr(p))) {
      if (axes_.producer(t) < 0 && !is_kept(t)) read[t] = std::max(read[t], n);
    }
  }
  for (const auto& [t, n] : read) bytes += static_cast<double>(n);
  const MatrixProblem& p = product_.problem;
  const double results =
      static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n);
  constexpr double kMost = 1 << 20;
  return static_cast<int64_t>(std::min(kMost, bytes / results + 0.5));
}

Status ProductFinder::describe() {
  MatrixProblem& p = product_.problem;
  const DType type = product_.type;
  for (const int a : product_.batch) p.batch *= extent(a);
  p.m = product_.rows.extent;
  p.n = product_.columns.extent;
  p.k = product_.depth.extent;
  p.element_bytes = byte_size(type);
  p.on_units = product_.on_units;
  p.depth = p.on_units ? 2 * kAccessBytes / p.element_bytes : kCoreDepth;
  p.gflops = unit_gflops(type, target_);
  ProductOperand &left = product_.left, &right = product_.right;
  const auto on_the_way = [&](const ProductOperand& o) {
    if (o.in_place) return false;
    return o.in_block || !(copies_directly(o) || copies_padded(o));
  };
  p.left_in_place = left.in_place =
      lies_in_place(left, product_.rows, p.on_units ? kUnitRows : kCoreRows);
  p.right_in_place = right.in_place =
      lies_in_place(right, product_.columns, p.on_units ? kUnitColumns : kCoreColumns);
  p.registers_on_the_way = on_the_way(left) || on_the_way(right);
  // Threads that copy few bytes at a time keep no warp group busy.
  const auto copies_wide = [&](const ProductOperand& o, const FlatAxis& across) {
    constexpr int64_t kLeastBytes = 8;
    const FlatAxis& along = o.along_depth ? product_.depth : across;
    const int64_t run = o.order.empty() ? run_along(o, along) : along.extent;
    return run * p.element_bytes % kLeastBytes == 0;
  };
  p.by_groups = p.on_units && multiplies_by_groups(type, target_) && !space_.frame() &&
                !p.left_in_place && !p.right_in_place && !p.registers_on_the_way &&
                copies_wide(left, product_.rows) && copies_wide(right, product_.columns);
  if (space_.frame()) p.each = space_.frame()->each;
  p.left_along = left.along_depth;
  p.right_along = right.along_depth;
  p.whole = whole_;
  p.in_parts = target_.grid_barriers && !space_.frame() && ends_in_rows();
  p.epilogue_bytes = epilogue_bytes();
  // Extents below one instruction's are padding.
  const int64_t columns = p.on_units ? kUnitColumns : least_core_columns(p.n);
  const int64_t rows =
      p.on_units ? kUnitRows : std::max<int64_t>(16, kCoreRows * kCoreColumns / columns);
  const int64_t padding =
      round_up(p.m, rows) / p.m * (round_up(p.n, columns) / p.n) * (round_up(p.k, p.depth) / p.k);
  if (padding > (p.on_units ? kMostPadding : 1))
    return refuse(
        fmt::format("{} is too small for tiles: {} x {} x {}", name(product_.root), p.m, p.n, p.k));
  return {};
}

}  // namespace

Result<MatrixProduct> find_product(const GroupSpace& space, const Target& target) {
  return ProductFinder(space, target).run();
}

namespace {

/// Why a product has no tile.
Error no_tile(const MatrixProduct& product, const Target& target) {
  const MatrixProblem& p = product.problem;
  if (p.whole == MatrixProblem::Whole::kNeither) return refuse(target.name + " has no such tile");
  const bool columns = p.whole == MatrixProblem::Whole::kColumns;
  return refuse(fmt::format("no tile of {} holds {} {} of the product at once", target.name,
                            columns ? p.n : p.m, columns ? "columns" : "rows"));
}

}  // namespace

Result<std::vector<PricedTile>> tiles_of(const MatrixProduct& product, const Target& target,
                                         size_t most) {
  std::vector<PricedTile> tiles = quickest_tiles(product.problem, target, most);
  if (tiles.empty()) return no_tile(product, target);
  return tiles;
}

Decision reductions_behind_product(const GroupSpace& space, const Target& target) {
  const auto product = find_product(space, target);
  if (!product.ok()) return Decision::forbid(product.error().message);
  if (!has_tile(product->problem, target))
    return Decision::forbid(no_tile(*product, target).message);
  return follows_on_tile(space, *product);
}

Decision follows_on_tile(const GroupSpace& space, const MatrixProduct& product) {
  const GroupAxes& axes = space.axes();
  const auto spanned = [&](const std::vector<int>& own) {
    std::set<int> out;
    for (const int a : own) {
      if (axes.axes[static_cast<size_t>(a)].extent > 1) out.insert(a);
    }
    return out;
  };
  const FlatAxis& over =
      product.problem.whole == MatrixProblem::Whole::kColumns ? product.columns : product.rows;
  const auto& root = axes.axis_of[static_cast<size_t>(product.root)];
  const std::set<int> results =
      spanned({root.begin(), root.begin() + space.expr(product.root).output_rank()});
  std::set<int> kept = results;
  for (const int a : over.axes) kept.erase(a);
  for (int p = 0; p < space.size(); ++p) {
    if (p == product.root) continue;
    std::set<int> here = spanned(axes.axis_of[static_cast<size_t>(p)]);
    if (!std::includes(results.begin(), results.end(), here.begin(), here.end())) {
      return Decision::forbid(space.name_of(p) + " runs along an axis that " +
                              space.name_of(product.root) + " does not have");
    }
    if (space.reduces(p)) {
      for (const int a : over.axes) here.erase(a);
    }
    if (space.is_output(p) && here != results && here != kept)
      return Decision::forbid(space.name_of(p) + " must reach memory but lacks an axis of " +
                              space.name_of(product.root));
  }
  return Decision::allow();
}

}  // namespace weft

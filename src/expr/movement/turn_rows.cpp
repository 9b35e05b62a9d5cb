#include "expr/movement/turn_rows.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "expr/movement/copy_tensor.h"
#include "expr/new_tensors.h"

namespace weft {
namespace {

/// Rows of a tile, and vectors of it, that are worth a copy.
constexpr int64_t kLeastRows = 8, kLeastColumns = 64;
constexpr int64_t kLeastSteps = 256;
/// Bytes from one step of the sum to the next: two lines.
constexpr int64_t kLeastLeap = 128;

/// Steps in memory along each variable; nothing where a position is no sum of multiples.
std::optional<AffineForm> steps_of(const TensorProgram& program, const TensorExpr& e,
                                   const Scalar& read) {
  const Tensor& t = program.tensors[static_cast<size_t>(read.symbol)];
  AffineForm form;
  const IndexExpr offset =
      element_offset(t.layout, t.type.shape, read.indices, [&](int id) { return e.range(id); });
  if (!read.operands.empty() || !as_affine(offset, &form)) return std::nullopt;
  return form;
}

/// A factor, and what it is multiplied with.
struct Factor {
  const Scalar* read = nullptr;
  AffineForm steps;
};

class RowTurner {
 public:
  RowTurner(TensorProgram& program, int64_t cache_bytes)
      : program_(program), tensors_(program), cache_bytes_(cache_bytes) {}

  bool run() {
    const size_t count = program_.exprs.size();
    for (size_t x = 0; x < count; ++x) {
      const std::optional<std::pair<TensorId, int>> rows = rows_that_leap(program_.exprs[x]);
      if (!rows) continue;
      const TensorId twin = twin_of(program_.exprs[x], rows->first, rows->second);
      program_.exprs[x].body = rewrite(program_.exprs[x].body, {}, [&](const ScalarRef& read) {
        if (read->symbol != rows->first) return read;
        return scalar_read(twin, read->type, read->indices, read->operands, read->fill);
      });
    }
    return !twins_.empty();
  }

 private:
  using Order = std::vector<int64_t>;

  Tensor& tensor(TensorId t) { return program_.tensors[static_cast<size_t>(t)]; }

  /// The factor that is to be turned, and the axis of the tensor that is to come before the sum's.
  std::optional<std::pair<TensorId, int>> rows_that_leap(const TensorExpr& e) {
    if (!e.is_contraction || e.combiner != Combiner::kSum || e.accumulator != DType::kF32)
      return std::nullopt;
    std::vector<Factor> factors;
    bool plain = true;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      const std::optional<AffineForm> steps = steps_of(program_, e, s);
      plain &= steps.has_value() && s.type == DType::kF32;
      if (plain) factors.push_back({&s, *steps});
    });
    if (!plain || factors.size() != 2 || factors[0].read->symbol == factors[1].read->symbol)
      return std::nullopt;
    // What slides cannot be one panel for all places of a window, and of a matrix's rows those lie
    // side by side in the result that are its columns.
    std::optional<std::pair<TensorId, int>> found;
    for (const size_t f : {size_t{0}, size_t{1}}) {
      const int rows = variable_of_rows(e, factors[f], factors[1 - f]);
      if (rows < 0 || (found && !slides(e, *factors[f].read) && rows == e.output_rank() - 1))
        continue;
      const auto& indices = factors[f].read->indices;
      const auto at = std::ranges::find_if(
          indices, [&](const IndexExpr& i) { return i.is_var() && i.var_id() == rows; });
      if (at == indices.end()) continue;
      found = {factors[f].read->symbol, static_cast<int>(at - indices.begin())};
      if (slides(e, *factors[f].read) || rows != e.output_rank() - 1) break;
    }
    return found;
  }

  /// Whether an index joins the variable of the result and one of the sum.
  static bool slides_along(const TensorExpr& e, const Scalar& read, int v) {
    return std::ranges::any_of(read.indices, [&](const IndexExpr& index) {
      return uses_var(index, v) &&
             std::ranges::any_of(variables(index), [&](int s) { return s >= e.output_rank(); });
    });
  }
  static bool slides(const TensorExpr& e, const Scalar& read) {
    for (int v = 0; v < e.output_rank(); ++v) {
      if (slides_along(e, read, v)) return true;
    }
    return false;
  }

  /// The variable of the result along which neighbours lie side by side in one factor, those of
  /// another variable in the other; -1 where a copy of the factor is not worth it.
  int variable_of_rows(const TensorExpr& e, const Factor& factor, const Factor& other) {
    const Tensor& t = tensor(factor.read->symbol);
    const int64_t size = element_count(t.type.shape).value_or(0) * byte_size(t.type.dtype);
    if (t.kind == Tensor::Kind::kConstant || 2 * size <= cache_bytes_ ||
        (!t.layout.is_row_major() && t.layout.axes.size() != t.type.shape.size()))
      return -1;
    int64_t steps = 1, leap = INT64_MAX, columns = 1;
    for (int v = e.output_rank(); v < e.axis_count(); ++v) {
      const int64_t extent = e.range(v).hi + 1, step = std::abs(factor.steps.coefficient(v));
      steps *= extent;
      if (extent > 1 && step > 0) leap = std::min(leap, step * byte_size(t.type.dtype));
    }
    int rows = -1;
    bool vectors = false;
    for (int v = 0; v < e.output_rank(); ++v) {
      const int64_t extent = e.extents[static_cast<size_t>(v)];
      const int64_t own = factor.steps.coefficient(v), beside = other.steps.coefficient(v);
      if (own == 0 || slides_along(e, *factor.read, v)) columns *= extent;
      if (own == 1 && beside == 0 && extent >= kLeastRows) rows = v;
      vectors |= own == 0 && beside == 1 && extent >= kLeastRows;
    }
    const bool worth = steps >= kLeastSteps && columns >= kLeastColumns && leap >= kLeastLeap;
    return worth && vectors && leap != INT64_MAX ? rows : -1;
  }

  TensorId twin_of(const TensorExpr& e, TensorId t, int rows) {
    const Scalar* read = nullptr;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && s.symbol == t) read = &s;
    });
    const Order order = along_sums(e, *read, rows);
    auto [known, is_new] = twins_.try_emplace({t, order}, -1);
    if (!is_new) return known->second;
    const std::string name = tensor(t).name + "_rows";
    const TensorType type = tensor(t).type;
    known->second = tensors_.add(name, type, Tensor::Kind::kIntermediate);
    if (!std::ranges::is_sorted(order))
      tensor(known->second).layout = permuted_layout(type.shape, order);
    add_copy(program_, t, known->second);
    return known->second;
  }

  /// The axes as they lie, those of the sum innermost, before them that of the rows.
  Order along_sums(const TensorExpr& e, const Scalar& read, int rows) {
    const Tensor& t = tensor(read.symbol);
    Order order(t.type.shape.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t p = 0; p < t.layout.axes.size(); ++p) order[p] = t.layout.axes[p].axis;
    Order out;
    const auto rank_of = [&](int64_t axis) {
      if (axis == rows) return 1;
      const auto used = variables(read.indices[static_cast<size_t>(axis)]);
      return std::ranges::any_of(used, [&](int v) { return v >= e.output_rank(); }) ? 2 : 0;
    };
    for (const int rank : {0, 1, 2}) {
      for (const int64_t axis : order) {
        if (rank_of(axis) == rank) out.push_back(axis);
      }
    }
    return out;
  }

  TensorProgram& program_;
  NewTensors tensors_;
  int64_t cache_bytes_;
  std::map<std::pair<TensorId, Order>, TensorId> twins_;
};

}  // namespace

bool turn_rows(TensorProgram& program, int64_t cache_bytes) {
  return RowTurner(program, cache_bytes).run();
}

}  // namespace weft

#include "expr/movement/turn_rows.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "expr/movement/copy_tensor.h"
#include "expr/movement/factor_steps.h"
#include "expr/new_tensors.h"

namespace weft {
namespace {

/// Rows that fill a tile, and columns that are worth a copy: of what may stay in a cache as it lies
/// so many that copying it is nothing beside.
constexpr int64_t kLeastRows = 8, kLeastColumns = 64, kManyColumns = 256;
/// Steps that share few sets of a cache.
constexpr int64_t kLeastSteps = 256;
/// Bytes from one step of the sum to the next: two lines.
constexpr int64_t kLeastLeap = 128;

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
      const std::optional<Turn> turn = turn_for(program_.exprs[x]);
      if (!turn) continue;
      auto [known, is_new] = twins_.try_emplace({turn->tensor, turn->order}, -1);
      if (is_new)
        known->second = add_copy_in_order(program_, tensors_, turn->tensor, "_rows", turn->order);
      const TensorId twin = known->second;
      program_.exprs[x].body = rewrite(program_.exprs[x].body, {}, [&](const ScalarRef& read) {
        if (read->symbol != turn->tensor) return read;
        return scalar_read(twin, read->type, read->indices, read->operands, read->fill);
      });
    }
    return !twins_.empty();
  }

 private:
  using Order = std::vector<int64_t>;

  Tensor& tensor(TensorId t) { return program_.tensors[static_cast<size_t>(t)]; }

  /// The order that a tensor is to have for a contraction.
  struct Turn {
    TensorId tensor = -1;
    Order order;
  };

  std::optional<Turn> turn_for(const TensorExpr& e) {
    if (!e.is_contraction || e.combiner != Combiner::kSum || e.accumulator != DType::kF32)
      return std::nullopt;
    std::vector<Factor> factors;
    bool plain = true;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      const std::optional<AffineForm> steps = memory_steps(program_, e, s);
      plain &= steps.has_value() && s.type == DType::kF32;
      if (plain) factors.push_back({&s, *steps});
    });
    if (!plain || factors.size() != 2 || factors[0].read->symbol == factors[1].read->symbol)
      return std::nullopt;
    // What slides cannot be one panel for all places of a window. Of a matrix's rows those lie side
    // by side in the result that are its columns.
    const auto is_of_rows = [&](const Factor& f, const Factor& other) {
      if (slides(e, *f.read, *other.read) || slides(e, *other.read, *f.read))
        return slides(e, *f.read, *other.read);
      return f.steps.coefficient(e.output_rank() - 1) != 1;
    };
    if (!is_of_rows(factors[0], factors[1])) std::swap(factors[0], factors[1]);
    const Factor &of_rows = factors[0], &beside = factors[1];
    if (const int rows = variable_of_rows(e, of_rows, beside); rows >= 0)
      return turned(e, *of_rows.read, rows, true);
    const int columns =
        slides(e, *of_rows.read, *beside.read) ? variable_of_columns(e, beside, of_rows) : -1;
    if (columns < 0) return std::nullopt;
    return turned(e, *beside.read, columns, false);
  }

  /// Bytes from one step of the sum to the next in a factor at least; 0 where there is one step.
  int64_t leap_of(const TensorExpr& e, const Factor& factor) {
    int64_t leap = 0;
    for (int v = e.output_rank(); v < e.axis_count(); ++v) {
      const int64_t step = std::abs(factor.steps.coefficient(v)) * byte_size(factor.read->type);
      if (e.range(v).hi > 0 && step > 0) leap = leap == 0 ? step : std::min(leap, step);
    }
    return leap;
  }

  /// Whether it varies, and its axes lie whole.
  bool can_be_turned(const Scalar& read) {
    const Tensor& t = tensor(read.symbol);
    return t.kind != Tensor::Kind::kConstant &&
           (t.layout.is_row_major() || t.layout.axes.size() == t.type.shape.size());
  }

  /// Whether all steps of a sum are known to find in a cache what they read.
  bool stays_as_it_lies(const TensorExpr& e, const Scalar& read) {
    const TensorType& type = tensor(read.symbol).type;
    double steps = 1;
    for (const int64_t extent : e.reduce_extents) steps *= static_cast<double>(extent);
    const int64_t bytes = element_count(type.shape).value_or(0) * byte_size(type.dtype);
    return cache_bytes_ > 0 && (steps < kLeastSteps || 2 * bytes <= cache_bytes_);
  }

  /// The variable of the result along which neighbours lie side by side in one factor, those of
  /// another variable in the other; -1 where a copy of the factor is not worth it.
  int variable_of_rows(const TensorExpr& e, const Factor& factor, const Factor& other) {
    if (!can_be_turned(*factor.read) || leap_of(e, factor) < kLeastLeap ||
        stays_as_it_lies(e, *factor.read))
      return -1;
    int64_t columns = 1;
    int rows = -1;
    bool vectors = false;
    for (int v = 0; v < e.output_rank(); ++v) {
      const int64_t extent = e.extents[static_cast<size_t>(v)];
      const int64_t own = factor.steps.coefficient(v), beside = other.steps.coefficient(v);
      if (own == 0 || slides_along(e, *factor.read, *other.read, v)) columns *= extent;
      if (own == 1 && beside == 0 && extent >= kLeastRows && axis_of(*factor.read, v) >= 0)
        rows = v;
      vectors |= own == 0 && beside == 1 && extent >= kLeastRows;
    }
    return columns >= (cache_bytes_ > 0 ? kLeastColumns : kManyColumns) && vectors ? rows : -1;
  }

  /// The variable of the result that is to lie side by side in the factor that does not slide,
  /// where in both neighbours are steps of the sum or places of the window, too few for vectors.
  int variable_of_columns(const TensorExpr& e, const Factor& still, const Factor& moving) {
    if (!can_be_turned(*still.read)) return -1;
    int columns = -1;
    for (int v = 0; v < e.output_rank(); ++v) {
      const int64_t extent = e.extents[static_cast<size_t>(v)];
      const int64_t own = still.steps.coefficient(v), beside = moving.steps.coefficient(v);
      if (extent >= kLeastRows && (own == 1 || beside == 1)) return -1;
      const bool longer = columns < 0 || extent > e.extents[static_cast<size_t>(columns)];
      if (own != 0 && beside == 0 && extent >= kLeastRows && longer && axis_of(*still.read, v) >= 0)
        columns = v;
    }
    return columns;
  }

  /// The axis at which a variable alone stands, or -1.
  static int axis_of(const Scalar& read, int v) {
    const auto at = std::ranges::find_if(
        read.indices, [v](const IndexExpr& i) { return i.is_var() && i.var_id() == v; });
    return at == read.indices.end() ? -1 : static_cast<int>(at - read.indices.begin());
  }

  /// The axes as they lie, those of the sum behind that of the variable, or before it.
  Turn turned(const TensorExpr& e, const Scalar& read, int variable, bool sums_innermost) {
    const Order order = axes_in_memory(tensor(read.symbol));
    const int own = axis_of(read, variable);
    const auto rank_of = [&](int64_t axis) {
      if (axis == own) return 1;
      const auto used = variables(read.indices[static_cast<size_t>(axis)]);
      const bool of_sum = std::ranges::any_of(used, [&](int v) { return v >= e.output_rank(); });
      return of_sum && sums_innermost ? 2 : 0;
    };
    Turn out{.tensor = read.symbol, .order = {}};
    for (const int rank : {0, 1, 2}) {
      for (const int64_t axis : order) {
        if (rank_of(axis) == rank) out.order.push_back(axis);
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

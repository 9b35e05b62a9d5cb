#include "expr/products/minimal_filtering.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "expr/movement/copy_tensor.h"
#include "expr/new_tensors.h"
#include "expr/products/bfloat_products.h"
#include "expr/products/windows_of_sum.h"
#include "support/rounding.h"

namespace weft {

namespace {

/// What a tap is of a tile's four neighbours: x[tap] - x[second], but for tap 1, which adds them.
IndexExpr second_of(const IndexExpr& tap) { return 2 - floor_div(tap, 2); }  // 2 2 1 1
IndexExpr sign_of(const IndexExpr& tap) {                                    // - + - -
  return 2 * (mod(tap, 2) - floor_div(tap, 3)) - 1;
}

ScalarRef plus(const ScalarRef& a, const ScalarRef& b) {
  return scalar_apply(ScalarOp::kAdd, {a, b}, DType::kF32);
}
ScalarRef is_below(const IndexExpr& index, int64_t end) {
  return scalar_apply(ScalarOp::kLt, {scalar_index(index), scalar_index(end)}, DType::kBool);
}
ScalarRef times(const IndexExpr& sign, const ScalarRef& a) {
  const ScalarRef factor = scalar_convert(scalar_index(sign), DType::kF32);
  return scalar_apply(ScalarOp::kMul, {factor, a}, DType::kF32);
}

/// Replaces one such sum by three expressions, or four.
class Filtering {
 public:
  Filtering(TensorProgram& program, NewTensors& new_tensors, FilteredWeights& filtered,
            TensorExpr e, WindowsOfSum windows)
      : program_(program),
        new_tensors_(new_tensors),
        filtered_(filtered),
        e_(std::move(e)),
        w_(std::move(windows)) {
    name_ = program_.tensors[static_cast<size_t>(e_.output)].name;
    taps_ = static_cast<int>(w_.axes.size());
  }

  /// In the order of their steps.
  std::vector<TensorExpr> run() {
    std::vector<TensorExpr> out;
    if (w_.varies) out.push_back(of_weights());
    const TensorId weights = w_.varies ? out.back().output : transformed_weights();
    out.push_back(of_windows());
    out.push_back(of_products(out.back(), weights));
    out.push_back(of_results(out.back()));
    return out;
  }

 private:
  int64_t tiles(const VariableDigit& row) const {
    return w_.axis_of(row.var) < 0 ? row.extent : ceil_div(row.extent, kWindowTile);
  }

  TensorExpr begun(const char* what, std::vector<int64_t> extents) {
    TensorExpr out;
    out.output =
        new_tensors_.add(name_ + what, {DType::kF32, extents}, Tensor::Kind::kIntermediate);
    out.extents = std::move(extents);
    out.origins = e_.origins;
    return out;
  }

  /// Marks what is open of axes that begin with the taps and go on with these variables.
  void mark_open(TensorExpr& made, std::initializer_list<std::vector<VariableDigit>> digits) const {
    if (e_.open.empty()) return;
    made.open.assign(static_cast<size_t>(taps_), false);
    for (const std::vector<VariableDigit>& list : digits) {
      for (const VariableDigit& d : list) made.open.push_back(e_.is_open(d.var));
    }
  }

  /// [taps][rows and tiles][groups][inputs], each element of up to four of the source.
  TensorExpr of_windows() {
    std::vector<int64_t> extents(static_cast<size_t>(taps_), kTaps);
    for (const VariableDigit& row : w_.rows) extents.push_back(tiles(row));
    for (const VariableDigit& group : w_.groups) extents.push_back(group.extent);
    for (const VariableDigit& input : w_.inputs) extents.push_back(input.extent);
    TensorExpr out = begun("_windows", std::move(extents));
    std::vector<IndexExpr> neighbours(w_.axes.size());
    out.body = window_of(neighbours, 0);
    mark_open(out, {w_.rows, w_.groups, w_.inputs});
    return out;
  }

  ScalarRef window_of(std::vector<IndexExpr>& neighbours, int axis) const {
    if (axis == taps_) return source_at(neighbours);
    const IndexExpr tap = IndexExpr::var(axis);
    const auto at = [&](const IndexExpr& neighbour) {
      neighbours[static_cast<size_t>(axis)] = neighbour;
      return window_of(neighbours, axis + 1);
    };
    const ScalarRef first = at(tap);
    return plus(first, times(sign_of(tap), at(second_of(tap))));
  }

  /// The source at these neighbours of each tile's first one; 0 at those that no window reads,
  /// which the last tile of an odd number of results has.
  ScalarRef source_at(const std::vector<IndexExpr>& neighbours) const {
    std::vector<IndexExpr> variable(static_cast<size_t>(e_.axis_count()), IndexExpr(0));
    std::vector<ScalarRef> conditions;
    int next = taps_;
    for (const VariableDigit& row : w_.rows) {
      IndexExpr at = IndexExpr::var(next++);
      if (const int axis = w_.axis_of(row.var); axis >= 0) {
        at = at * kWindowTile + neighbours[static_cast<size_t>(axis)];
        if (row.extent % kWindowTile != 0)
          conditions.push_back(is_below(at, row.extent + kWindowPlaces - 1));
      }
      variable[static_cast<size_t>(row.var)] = at;
    }
    for (const auto& list : {w_.groups, w_.inputs}) {
      for (const VariableDigit& d : list)
        variable[static_cast<size_t>(d.var)] = IndexExpr::var(next++) * d.step;
    }
    ScalarRef value = rewrite(w_.source, [&](int v) { return variable[static_cast<size_t>(v)]; });
    const ScalarRef zero = scalar_constant(float_value(DType::kF32, 0));
    for (const ScalarRef& condition : conditions)
      value = scalar_apply(ScalarOp::kSelect, {condition, value, zero}, DType::kF32);
    return value;
  }

  /// [taps][rows and tiles][groups][columns], summed over the inputs.
  TensorExpr of_products(const TensorExpr& windows, TensorId weights) {
    std::vector<int64_t> extents(windows.extents.begin(),
                                 windows.extents.end() - std::ssize(w_.inputs));
    const int groups_end = static_cast<int>(extents.size()),
              groups_begin = groups_end - static_cast<int>(w_.groups.size());
    for (const VariableDigit& column : w_.columns) extents.push_back(column.extent);
    TensorExpr out = begun("_products", std::move(extents));
    for (const VariableDigit& input : w_.inputs) out.reduce_extents.push_back(input.extent);
    out.accumulator = DType::kF32;
    out.is_contraction = true;
    std::vector<IndexExpr> of_window, of_weights;
    for (int v = 0; v < groups_end; ++v) of_window.push_back(IndexExpr::var(v));
    for (int tap = 0; tap < taps_; ++tap) of_weights.push_back(IndexExpr::var(tap));
    for (int v = groups_begin; v < groups_end; ++v) of_weights.push_back(IndexExpr::var(v));
    for (int v = out.output_rank(); v < out.axis_count(); ++v) {
      of_window.push_back(IndexExpr::var(v));
      of_weights.push_back(IndexExpr::var(v));
    }
    for (int v = groups_end; v < out.output_rank(); ++v) of_weights.push_back(IndexExpr::var(v));
    out.body = scalar_apply(ScalarOp::kMul,
                            {scalar_read(windows.output, DType::kF32, of_window),
                             scalar_read(weights, DType::kF32, of_weights)},
                            DType::kF32);
    mark_open(out, {w_.rows, w_.groups, w_.columns, w_.inputs});
    return out;
  }

  /// Weights that vary as [taps][groups][inputs][columns].
  TensorExpr of_weights() {
    std::vector<int64_t> extents(static_cast<size_t>(taps_), kTaps);
    std::vector<IndexExpr> variable(static_cast<size_t>(e_.axis_count()), IndexExpr(0));
    for (const auto& list : {w_.groups, w_.inputs, w_.columns}) {
      for (const VariableDigit& d : list) {
        IndexExpr& at = variable[static_cast<size_t>(d.var)];
        at = at + IndexExpr::var(static_cast<int>(extents.size())) * d.step;
        extents.push_back(d.extent);
      }
    }
    TensorExpr out = begun("_weights", std::move(extents));
    out.body = weights_of(variable, 0);
    mark_open(out, {w_.groups, w_.inputs, w_.columns});
    return out;
  }

  /// Of a tap: w0, (w0 + w1 + w2) / 2, (w0 - w1 + w2) / 2 or w2, along one axis after the other.
  ScalarRef weights_of(std::vector<IndexExpr>& variable, int axis) const {
    if (axis == taps_) {
      const ScalarRef read =
          rewrite(w_.weights, [&](int v) { return variable[static_cast<size_t>(v)]; });
      return scalar_convert(read, DType::kF32);
    }
    const auto at = [&](int64_t place) {
      variable[static_cast<size_t>(w_.axes[static_cast<size_t>(axis)].place)] = place;
      return weights_of(variable, axis + 1);
    };
    const IndexExpr tap = IndexExpr::var(axis);
    const ScalarRef first = at(0), second = at(1), third = at(2);
    const ScalarRef both = plus(plus(first, third), times(3 - 2 * tap, second));
    const ScalarRef half = scalar_apply(
        ScalarOp::kMul, {scalar_constant(float_value(DType::kF32, 0.5)), both}, DType::kF32);
    const auto where_at = [&](int64_t t, const ScalarRef& then, const ScalarRef& otherwise) {
      const ScalarRef is =
          scalar_apply(ScalarOp::kEq, {scalar_index(tap), scalar_index(t)}, DType::kBool);
      return scalar_apply(ScalarOp::kSelect, {is, then, otherwise}, DType::kF32);
    };
    return where_at(0, first, where_at(kTaps - 1, third, half));
  }

  /// The constant as [taps][groups][inputs][columns], rounded once.
  TensorId transformed_weights() {
    const Tensor& weights = program_.tensors[static_cast<size_t>(w_.weights->symbol)];
    Shape shape(static_cast<size_t>(taps_), kTaps);
    std::vector<int64_t> strides;
    for (const WindowAlong& axis : w_.axes)
      strides.push_back(stride_of_weights(weights, axis.place));
    for (const auto& list : {w_.groups, w_.inputs, w_.columns}) {
      for (const VariableDigit& d : list) {
        shape.push_back(d.extent);
        strides.push_back(stride_of_weights(weights, d.var) * d.step);
      }
    }
    const HostTensor value = filtered_.of(weights.value, strides, shape, taps_);
    const TensorId id =
        new_tensors_.add(weights.name + "_windows", {DType::kF32, shape}, Tensor::Kind::kConstant);
    program_.tensors[static_cast<size_t>(id)].value = value;
    return id;
  }

  /// Elements from one to the next along a variable.
  int64_t stride_of_weights(const Tensor& weights, int var) const {
    int64_t stride = 1, found = 0;
    for (size_t d = weights.type.shape.size(); d-- > 0;) {
      const IndexExpr& index = w_.weights->indices[d];
      if (index.is_var() && index.var_id() == var) found += stride;
      stride *= weights.type.shape[d];
    }
    return found;
  }

  /// Each of three products along an axis, of nine along two.
  TensorExpr of_results(const TensorExpr& products) const {
    TensorExpr out = e_;
    out.reduce_extents.clear();
    if (!out.open.empty()) out.open.resize(out.extents.size());
    out.is_contraction = false;
    std::vector<IndexExpr> at(static_cast<size_t>(taps_));
    for (const VariableDigit& row : w_.rows) {
      const IndexExpr d = IndexExpr::var(row.var);
      at.push_back(w_.axis_of(row.var) < 0 ? d : floor_div(d, kWindowTile));
    }
    for (const auto& list : {w_.groups, w_.columns}) {
      for (const VariableDigit& d : list) {
        const bool is_lower = d.extent * d.step < e_.extents[static_cast<size_t>(d.var)];
        const IndexExpr upper = floor_div(IndexExpr::var(d.var), d.step);
        at.push_back(is_lower ? mod(upper, d.extent) : upper);
      }
    }
    const DType type = program_.tensors[static_cast<size_t>(e_.output)].type.dtype;
    out.body = scalar_convert(result_of(products, at, 0), type);
    return out;
  }

  ScalarRef result_of(const TensorExpr& products, std::vector<IndexExpr>& at, int axis) const {
    if (axis == taps_) return scalar_read(products.output, DType::kF32, at);
    const IndexExpr second =
        mod(IndexExpr::var(w_.axes[static_cast<size_t>(axis)].result), kWindowTile);
    const auto tap = [&](int64_t t) {
      at[static_cast<size_t>(axis)] = second + t;
      return result_of(products, at, axis + 1);
    };
    const ScalarRef first = tap(0), middle = times(1 - 2 * second, tap(1));
    return plus(plus(first, middle), tap(2));
  }

  TensorProgram& program_;
  NewTensors& new_tensors_;
  FilteredWeights& filtered_;
  TensorExpr e_;
  WindowsOfSum w_;
  std::string name_;
  int taps_ = 0;
};

/// Whether inputs run along the source as it lies, those of a group from where it begins.
bool lie_along_vectors(const TensorProgram& program, const WindowsOfSum& windows) {
  bool along = true;
  visit(windows.source, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    const Tensor& read = program.tensors[static_cast<size_t>(s.symbol)];
    const IndexExpr& last = s.indices[static_cast<size_t>(axes_in_memory(read).back())];
    along &= std::ranges::any_of(windows.inputs, [&](const VariableDigit& input) {
      return uses_var(last, input.var) && !uses_var(last - IndexExpr::var(input.var), input.var);
    });
  });
  return along;
}

WindowSum size_of(const TensorProgram& program, const TensorExpr& e, const WindowsOfSum& windows) {
  WindowSum out;
  out.varies = windows.varies;
  out.name = program.tensors[static_cast<size_t>(e.output)].name;
  out.along_vectors = lie_along_vectors(program, windows);
  out.of_pairs = sums_bfloat_pairs(program, e);
  // So that other numbers of what is open are decided alike.
  const auto extent = [&](const VariableDigit& d) { return e.is_open(d.var) ? 1 : d.extent; };
  for (const VariableDigit& row : windows.rows) {
    out.results *= extent(row);
    out.tiles *= windows.axis_of(row.var) < 0 ? extent(row) : ceil_div(extent(row), kWindowTile);
  }
  for (const VariableDigit& group : windows.groups) out.groups *= extent(group);
  for (const VariableDigit& input : windows.inputs) out.inputs *= extent(input);
  for (const VariableDigit& column : windows.columns) out.outputs *= extent(column);
  for (size_t a = 0; a < windows.axes.size(); ++a) {
    out.places *= kWindowPlaces;
    out.products *= kTaps;
  }
  return out;
}

}  // namespace

std::vector<TensorId> filter_minimally(TensorProgram& program,
                                       const std::function<bool(const WindowSum&)>& pays,
                                       FilteredWeights& filtered) {
  NewTensors new_tensors(program);
  std::vector<TensorId> made;
  std::vector<TensorExpr> exprs;  // in the order of their steps
  std::vector<TensorProgram::Step> steps;
  const auto add = [&](TensorExpr e) {
    steps.push_back({false, static_cast<int32_t>(exprs.size())});
    exprs.push_back(std::move(e));
  };
  for (const TensorProgram::Step step : program.steps) {
    if (step.opaque) {
      steps.push_back(step);
      continue;
    }
    const TensorExpr& e = program.exprs[static_cast<size_t>(step.index)];
    std::optional<WindowsOfSum> windows = windows_of_sum(program, e);
    if (!windows || !pays(size_of(program, e, *windows))) {
      add(e);
      continue;
    }
    made.push_back(e.output);
    for (TensorExpr& part : Filtering(program, new_tensors, filtered, e, std::move(*windows)).run())
      add(std::move(part));
  }
  if (made.empty()) return made;  // the numbers of expressions are those of the other binding
  program.steps = std::move(steps);
  program.exprs = std::move(exprs);
  return made;
}

}  // namespace weft

#include "expr/products/minimal_filtering.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "expr/body_uses.h"
#include "expr/leaves.h"
#include "expr/new_tensors.h"
#include "expr/products/bfloat_products.h"
#include "support/rounding.h"

namespace weft {

namespace {

constexpr int64_t kPlaces = 3;  ///< of a window along one axis
constexpr int64_t kTile = 2;    ///< results that a tile has of it
constexpr int64_t kTaps = kTile + kPlaces - 1;
constexpr size_t kMostAxes = 2;

/// A window along an axis of the result: the other factor is read at `result` + `place`.
struct WindowAxis {
  int result = -1;  ///< variable of the result
  int place = -1;   ///< variable of the sum
};

/// A sum over windows, its variables by what they run over.
struct Windows {
  ScalarRef source;   ///< the factor that varies, with its padding
  ScalarRef weights;  ///< the read of the constant
  std::vector<WindowAxis> axes;
  std::vector<int> rows;     ///< of the result, along which the source is read
  std::vector<int> columns;  ///< of the result, along which the weights are read
  std::vector<int> inputs;   ///< of the sum, but for the windows'

  /// The window along a variable of the result, or -1.
  int axis_of(int result) const {
    const auto found = std::ranges::find(axes, result, &WindowAxis::result);
    return found == axes.end() ? -1 : static_cast<int>(found - axes.begin());
  }
};

/// Whether all that `s` reads stands at result + place, wherever it depends on either.
bool reads_neighbours(const ScalarRef& s, const WindowAxis& axis, const RangeOf& range) {
  bool neighbours = true;
  const int at = kRuntimeIndexBase - 1;  // no variable of an expression
  const RangeOf range_with_at = [&](int v) { return v == at ? kUnbounded : range(v); };
  for (const Leaf& leaf : leaves_of(s)) {
    for (const IndexExpr& index : leaf.indices) {
      const IndexExpr moved = substitute(index, [&](int v) {
        return v == axis.place ? IndexExpr::var(at) - IndexExpr::var(axis.result)
                               : IndexExpr::var(v);
      });
      neighbours &= !uses_var(simplify(moved, range_with_at), axis.result);
    }
  }
  return neighbours;
}

/// Windows of three places of one float32 tensor, multiplied by a constant whose indices are
/// variables, each of the result's of one factor alone.
class WindowsFinder {
 public:
  WindowsFinder(const TensorProgram& program, const TensorExpr& e) : program_(program), e_(e) {}

  std::optional<Windows> find() {
    if (!e_.is_contraction || e_.combiner != Combiner::kSum || e_.accumulator != DType::kF32 ||
        tensor(e_.output).type.dtype != DType::kF32 || !take_factors())
      return std::nullopt;
    find_axes();
    if (out_.axes.empty() || !take_variables()) return std::nullopt;
    return std::move(out_);
  }

 private:
  const Tensor& tensor(TensorId t) const { return program_.tensors[static_cast<size_t>(t)]; }
  RangeOf ranges() const {
    return [this](int v) { return e_.range(v); };
  }

  bool take_factors() {
    const std::optional<FloatProduct> product = as_float_product(e_.body);
    const auto constant = product ? constant_factor(program_, *product) : std::nullopt;
    if (!constant) return false;
    out_.weights = product->reads[*constant];
    out_.source = e_.body->operands[1 - *constant];
    // Padding is by indices: what data leave out has no neighbours to tell of.
    size_t reads = 0;
    visit(out_.source, [&](const Scalar& s) { reads += s.kind == Scalar::Kind::kRead; });
    return reads == 1 && out_.weights->type == DType::kF32 &&
           product->reads[1 - *constant]->type == DType::kF32 &&
           std::ranges::all_of(out_.weights->indices, [](const IndexExpr& index) {
             return index.is_var() || index.is_const(0);
           });
  }

  void find_axes() {
    for (int place = e_.output_rank(); place < e_.axis_count(); ++place) {
      if (e_.range(place).hi + 1 != kPlaces || !body_uses(out_.weights, place)) continue;
      for (int result = 0; result < e_.output_rank(); ++result) {
        const WindowAxis axis{result, place};
        if (out_.axis_of(result) >= 0 || e_.is_open(result) || body_uses(out_.weights, result) ||
            !body_uses(out_.source, result) || !body_uses(out_.source, place) ||
            e_.extents[static_cast<size_t>(result)] < kTile ||
            !reads_neighbours(out_.source, axis, ranges()))
          continue;
        out_.axes.push_back(axis);
        break;
      }
    }
  }

  bool take_variables() {
    if (out_.axes.size() > kMostAxes) return false;
    const auto is_window = [&](int v) {
      return std::ranges::any_of(out_.axes, [&](const WindowAxis& a) { return a.place == v; });
    };
    for (int v = 0; v < e_.axis_count(); ++v) {
      if (e_.range(v).hi == 0 && v >= e_.output_rank()) continue;
      const bool source = body_uses(out_.source, v), weights = body_uses(out_.weights, v);
      if (v < e_.output_rank()) {
        if (source && weights) return false;  // groups
        (weights ? out_.columns : out_.rows).push_back(v);
      } else if (!is_window(v)) {
        if (!source || !weights || e_.is_open(v)) return false;
        out_.inputs.push_back(v);
      }
    }
    return !out_.columns.empty() && !out_.inputs.empty();
  }

  const TensorProgram& program_;
  const TensorExpr& e_;
  Windows out_;
};

/// Of the points 0, 1, -1 and infinity: what a tap of the weights is of their three places.
constexpr double kOfWeights[kTaps][kPlaces] = {
    {1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};

/// The same of a tile's four neighbours: x[tap] - x[second], but for tap 1, which adds them.
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

/// Replaces one such sum by three expressions.
class Filtering {
 public:
  Filtering(TensorProgram& program, NewTensors& new_tensors, TensorExpr e, Windows windows)
      : program_(program), new_tensors_(new_tensors), e_(std::move(e)), w_(std::move(windows)) {
    name_ = program_.tensors[static_cast<size_t>(e_.output)].name;
    taps_ = static_cast<int>(w_.axes.size());
  }

  /// In the order of their steps.
  std::vector<TensorExpr> run() {
    std::vector<TensorExpr> out;
    out.push_back(of_windows());
    out.push_back(of_products(out.back()));
    out.push_back(of_results(out.back()));
    return out;
  }

 private:
  int64_t extent(int var) const { return e_.range(var).hi + 1; }
  int64_t tiles(int row) const {
    return w_.axis_of(row) < 0 ? extent(row) : ceil_div(extent(row), kTile);
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
  void mark_open(TensorExpr& made, std::initializer_list<std::vector<int>> variables) const {
    if (e_.open.empty()) return;
    made.open.assign(static_cast<size_t>(taps_), false);
    for (const std::vector<int>& list : variables) {
      for (const int v : list) made.open.push_back(e_.is_open(v));
    }
  }

  /// [taps][rows and tiles][inputs], each element of up to four of the source.
  TensorExpr of_windows() {
    std::vector<int64_t> extents(static_cast<size_t>(taps_), kTaps);
    for (const int row : w_.rows) extents.push_back(tiles(row));
    for (const int input : w_.inputs) extents.push_back(extent(input));
    TensorExpr out = begun("_windows", std::move(extents));
    std::vector<IndexExpr> neighbours(w_.axes.size());
    out.body = window_of(neighbours, 0);
    mark_open(out, {w_.rows, w_.inputs});
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
    for (const int row : w_.rows) {
      IndexExpr at = IndexExpr::var(next++);
      if (const int axis = w_.axis_of(row); axis >= 0) {
        at = at * kTile + neighbours[static_cast<size_t>(axis)];
        if (extent(row) % kTile != 0) conditions.push_back(is_below(at, extent(row) + kPlaces - 1));
      }
      variable[static_cast<size_t>(row)] = at;
    }
    for (const int input : w_.inputs) variable[static_cast<size_t>(input)] = IndexExpr::var(next++);
    ScalarRef value = rewrite(w_.source, [&](int v) { return variable[static_cast<size_t>(v)]; });
    const ScalarRef zero = scalar_constant(float_value(DType::kF32, 0));
    for (const ScalarRef& condition : conditions)
      value = scalar_apply(ScalarOp::kSelect, {condition, value, zero}, DType::kF32);
    return value;
  }

  /// [taps][rows and tiles][columns], summed over the inputs.
  TensorExpr of_products(const TensorExpr& windows) {
    std::vector<int64_t> extents(windows.extents.begin(),
                                 windows.extents.end() - std::ssize(w_.inputs));
    const int rows_end = static_cast<int>(extents.size());
    for (const int column : w_.columns) extents.push_back(extent(column));
    TensorExpr out = begun("_products", std::move(extents));
    for (const int input : w_.inputs) out.reduce_extents.push_back(extent(input));
    out.accumulator = DType::kF32;
    out.is_contraction = true;
    std::vector<IndexExpr> of_window, of_weights;
    for (int v = 0; v < rows_end; ++v) of_window.push_back(IndexExpr::var(v));
    for (int tap = 0; tap < taps_; ++tap) of_weights.push_back(IndexExpr::var(tap));
    for (int v = out.output_rank(); v < out.axis_count(); ++v) {
      of_window.push_back(IndexExpr::var(v));
      of_weights.push_back(IndexExpr::var(v));
    }
    for (int v = rows_end; v < out.output_rank(); ++v) of_weights.push_back(IndexExpr::var(v));
    out.body = scalar_apply(ScalarOp::kMul,
                            {scalar_read(windows.output, DType::kF32, of_window),
                             scalar_read(transformed_weights(), DType::kF32, of_weights)},
                            DType::kF32);
    mark_open(out, {w_.rows, w_.columns, w_.inputs});
    return out;
  }

  /// The constant as [taps][inputs][columns], rounded once.
  TensorId transformed_weights() {
    Shape shape(static_cast<size_t>(taps_), kTaps);
    std::vector<int> variables;
    for (const WindowAxis& axis : w_.axes) variables.push_back(axis.place);
    for (const auto& list : {w_.inputs, w_.columns}) {
      for (const int v : list) {
        shape.push_back(extent(v));
        variables.push_back(v);
      }
    }
    const Tensor& weights = program_.tensors[static_cast<size_t>(w_.weights->symbol)];
    const HostTensor value = transform(weights, variables, shape);
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

  HostTensor transform(const Tensor& weights, const std::vector<int>& variables,
                       const Shape& shape) const {
    const auto* from = weights.value.data<float>();
    HostTensor out(DType::kF32, shape);
    auto* to = out.mutable_data<float>();
    std::vector<int64_t> strides;
    for (const int v : variables) strides.push_back(stride_of_weights(weights, v));
    int64_t windows = 1;
    for (size_t d = w_.axes.size(); d < shape.size(); ++d) windows *= shape[d];
    for (int64_t i = 0; i < windows; ++i) {
      int64_t at = 0, rest = i;
      for (size_t d = shape.size(); d-- > w_.axes.size();) {
        at += rest % shape[d] * strides[d];
        rest /= shape[d];
      }
      transform_window(from + at, strides, to + i, windows);
    }
    return out;
  }

  /// One axis after the other; `apart` elements from one tap to the next.
  void transform_window(const float* places, const std::vector<int64_t>& strides, float* taps,
                        int64_t apart) const {
    const bool two = taps_ > 1;
    const auto add = [&](double tap) {
      *taps = static_cast<float>(tap);
      taps += apart;
    };
    for (const auto& of_first : kOfWeights) {
      double along[kPlaces] = {};  // by place of the second axis
      for (int64_t s = 0; s < (two ? kPlaces : 1); ++s) {
        for (int64_t r = 0; r < kPlaces; ++r) {
          const float place = places[r * strides[0] + (two ? s * strides[1] : 0)];
          along[s] += of_first[r] * static_cast<double>(place);
        }
      }
      if (!two) {
        add(along[0]);
        continue;
      }
      for (const auto& of_second : kOfWeights)
        add(std::inner_product(std::begin(along), std::end(along), std::begin(of_second), 0.0));
    }
  }

  /// Each of three products along an axis, of nine along two.
  TensorExpr of_results(const TensorExpr& products) const {
    TensorExpr out = e_;
    out.reduce_extents.clear();
    if (!out.open.empty()) out.open.resize(out.extents.size());
    out.is_contraction = false;
    std::vector<IndexExpr> at(static_cast<size_t>(taps_));
    for (const int row : w_.rows) {
      const IndexExpr d = IndexExpr::var(row);
      at.push_back(w_.axis_of(row) < 0 ? d : floor_div(d, kTile));
    }
    for (const int column : w_.columns) at.push_back(IndexExpr::var(column));
    out.body = result_of(products, at, 0);
    return out;
  }

  ScalarRef result_of(const TensorExpr& products, std::vector<IndexExpr>& at, int axis) const {
    if (axis == taps_) return scalar_read(products.output, DType::kF32, at);
    const IndexExpr second = mod(IndexExpr::var(w_.axes[static_cast<size_t>(axis)].result), kTile);
    const auto tap = [&](int64_t t) {
      at[static_cast<size_t>(axis)] = second + t;
      return result_of(products, at, axis + 1);
    };
    const ScalarRef first = tap(0), middle = times(1 - 2 * second, tap(1));
    return plus(plus(first, middle), tap(2));
  }

  TensorProgram& program_;
  NewTensors& new_tensors_;
  TensorExpr e_;
  Windows w_;
  std::string name_;
  int taps_ = 0;
};

/// The axis of a tensor along which neighbours lie side by side.
size_t innermost_axis(const Tensor& tensor) {
  if (!tensor.layout.is_row_major()) return static_cast<size_t>(tensor.layout.axes.back().axis);
  return tensor.type.shape.size() - 1;
}

/// Whether the inputs run along the source as it lies.
bool lie_along_vectors(const TensorProgram& program, const Windows& windows) {
  bool along = true;
  visit(windows.source, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    const IndexExpr& last =
        s.indices[innermost_axis(program.tensors[static_cast<size_t>(s.symbol)])];
    along &= last.is_var() && std::ranges::count(windows.inputs, last.var_id()) == 1;
  });
  return along;
}

WindowSum size_of(const TensorProgram& program, const TensorExpr& e, const Windows& windows) {
  WindowSum out;
  out.name = program.tensors[static_cast<size_t>(e.output)].name;
  out.along_vectors = lie_along_vectors(program, windows);
  // So that other numbers of what is open are decided alike.
  const auto extent = [&](int v) { return e.is_open(v) ? 1 : e.range(v).hi + 1; };
  for (const int row : windows.rows) {
    out.results *= extent(row);
    out.tiles *= windows.axis_of(row) < 0 ? extent(row) : ceil_div(extent(row), kTile);
  }
  for (const int input : windows.inputs) out.inputs *= extent(input);
  for (const int column : windows.columns) out.outputs *= extent(column);
  for (size_t a = 0; a < windows.axes.size(); ++a) {
    out.places *= kPlaces;
    out.products *= kTaps;
  }
  return out;
}

}  // namespace

std::vector<TensorId> filter_minimally(TensorProgram& program,
                                       const std::function<bool(const WindowSum&)>& pays) {
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
    std::optional<Windows> windows = WindowsFinder(program, e).find();
    if (!windows || !pays(size_of(program, e, *windows))) {
      add(e);
      continue;
    }
    made.push_back(e.output);
    for (TensorExpr& part : Filtering(program, new_tensors, e, std::move(*windows)).run())
      add(std::move(part));
  }
  program.steps = std::move(steps);
  program.exprs = std::move(exprs);
  return made;
}

}  // namespace weft

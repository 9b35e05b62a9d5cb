#include "import/builder/precision.h"
#include "import/builder/sampling.h"
#include "import/onnx/interpolation.h"

namespace weft::onnx {
namespace {

/// One spatial axis of GridSample: its extent, and the coordinates [-border, border] in between
/// which nothing is padding.
struct SampledAxis {
  int64_t extent;
  double least, largest;
};

/// x mirrored at both borders until it lies between them.
ValueId reflect(GraphBuilder& b, ValueId x, const SampledAxis& axis) {
  double range = axis.largest - axis.least;
  if (range <= 0) return b.full_like(x, axis.least);
  ValueId least = b.scalar(b.dtype(x), axis.least), largest = b.scalar(b.dtype(x), axis.largest);
  ValueId below = b.binary(ScalarOp::kLt, x, least);
  ValueId above = b.binary(ScalarOp::kGt, x, largest);
  ValueId distance = b.select(below, b.sub(least, x), b.sub(x, largest));
  ValueId turns = b.unary(ScalarOp::kTrunc, b.div(distance, range));
  ValueId rest = b.sub(distance, b.mul(turns, range));
  ValueId odd =
      b.binary(ScalarOp::kNe, b.binary(ScalarOp::kRem, turns, 2.0), b.scalar(b.dtype(x), 0));
  // An even number of turns leaves at the border that x crossed, an odd one at the other.
  ValueId at_least = b.binary(ScalarOp::kNe, below, odd);
  ValueId mirrored = b.select(at_least, b.add(rest, axis.least), b.sub(largest, rest));
  return b.select(b.binary(ScalarOp::kOr, below, above), mirrored, x);
}

/// Cubic convolution weights (a = -0.75) of the taps at -1, 0, 1, 2 around a fraction t.
ValueId cubic_weight(GraphBuilder& b, ValueId t, int tap) {
  constexpr double kA = -0.75;
  // Distance of the tap: t + 1, t, 1 - t, 2 - t.
  ValueId d = t;
  if (tap == 0) d = b.add(t, 1.0);
  if (tap == 2) d = b.sub(b.scalar(b.dtype(t), 1), t);
  if (tap == 3) d = b.sub(b.scalar(b.dtype(t), 2), t);
  if (tap == 1 || tap == 2) {
    ValueId inner = b.sub(b.mul(d, kA + 2), kA + 3);
    return b.add(b.mul(b.mul(inner, d), d), 1.0);
  }
  ValueId inner = b.add(b.mul(b.sub(b.mul(d, kA), 5 * kA), d), 8 * kA);
  return b.sub(b.mul(inner, d), 4 * kA);
}

class GridSampler {
 public:
  explicit GridSampler(OpContext& n)
      : b_(n.b),
        mode_(n.string_attr("mode", n.opset() >= 20 ? "linear" : "bilinear")),
        padding_(n.string_attr("padding_mode", "zeros")),
        align_corners_(n.bool_attr("align_corners", false)) {
    if (mode_ == "bilinear") mode_ = "linear";
    if (mode_ == "bicubic") mode_ = "cubic";
    n.require(mode_ == "linear" || mode_ == "nearest" || mode_ == "cubic",
              "mode must be linear, nearest or cubic");
    n.require(padding_ == "zeros" || padding_ == "border" || padding_ == "reflection",
              "padding_mode must be zeros, border or reflection");
  }

  /// Taps along one axis for normalised coordinates [N, P].
  std::vector<AxisTap> taps(ValueId normalised, int64_t extent) {
    SampledAxis axis{extent, align_corners_ ? 0 : -0.5,
                     static_cast<double>(extent) - (align_corners_ ? 1 : 0.5)};
    ValueId x = denormalise(normalised, extent);
    if (mode_ == "nearest") x = b_.unary(ScalarOp::kRoundEven, x);
    x = pad_coordinate(x, axis);
    if (mode_ == "nearest") return {make_tap(b_.unary(ScalarOp::kTrunc, x), kNoValue, axis)};
    ValueId base = b_.unary(ScalarOp::kFloor, x), t = b_.sub(x, base);
    if (mode_ == "linear") {
      ValueId low = b_.sub(b_.scalar(b_.dtype(t), 1), t);
      return {make_tap(base, low, axis), make_tap(b_.add(base, 1.0), t, axis)};
    }
    std::vector<AxisTap> result;
    for (int tap = 0; tap < 4; ++tap) {
      result.push_back(make_tap(b_.add(base, tap - 1.0), cubic_weight(b_, t, tap), axis));
    }
    return result;
  }

 private:
  ValueId denormalise(ValueId x, int64_t extent) {
    double size = static_cast<double>(extent);
    x = b_.add(x, 1.0);
    if (align_corners_) return b_.mul(b_.div(x, 2.0), size - 1);
    return b_.div(b_.sub(b_.mul(x, size), 1.0), 2.0);
  }

  ValueId pad_coordinate(ValueId x, const SampledAxis& axis) {
    if (padding_ == "reflection") return reflect(b_, x, axis);
    // The taps of a cubic kernel are clamped one by one.
    if (padding_ == "zeros" || mode_ == "cubic") return x;
    ValueId clamped = b_.max(b_.min(x, static_cast<double>(axis.extent - 1)), 0.0);
    ValueId below = b_.binary(ScalarOp::kLt, x, axis.least);
    ValueId above = b_.binary(ScalarOp::kGt, x, axis.largest);
    return b_.select(b_.binary(ScalarOp::kOr, below, above), clamped, x);
  }

  AxisTap make_tap(ValueId position, ValueId weight, const SampledAxis& axis) {
    if (padding_ == "reflection") position = reflect(b_, position, axis);
    AxisTap tap = zero_padded_tap(b_, position, weight, axis.extent);
    if (padding_ != "zeros") tap.inside = kNoValue;
    return tap;
  }

  GraphBuilder& b_;
  std::string mode_, padding_;
  bool align_corners_;
};

}  // namespace

void translate_grid_sample(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0), grid = widen(b, n.input(1));
  int64_t rank = b.rank(x) - 2;
  n.require(rank >= 1 && b.rank(grid) == rank + 2 && b.extent(grid, -1) == rank &&
                b.extent(grid, 0) == b.extent(x, 0),
            "the grid must be [N, output extents..., number of spatial axes]");
  if (rank > 4) n.unsupported("GridSample over more than four spatial axes");
  GridSampler sampler(n);
  Shape in(b.shape(x).begin() + 2, b.shape(x).end());
  Shape out = b.shape(grid);
  out.pop_back();
  int64_t batch = b.extent(x, 0), channels = b.extent(x, 1);
  auto points = element_count(Shape(out.begin() + 1, out.end()));
  auto elements = element_count(in);
  n.require(points && elements, "the input or the grid is too large");
  n.require(*elements > 0, "the input has no elements to sample");
  std::vector<std::vector<AxisTap>> taps;
  for (size_t i = 0; i < in.size(); ++i) {
    // The grid names the axes from the last to the first.
    ValueId column = b.pick(grid, -1, rank - 1 - static_cast<int64_t>(i));
    taps.push_back(sampler.taps(b.reshape(column, {batch, *points}), in[i]));
  }
  ValueId flat = b.reshape(widen(b, x), {batch, channels, *elements});
  ValueId y = sum_of_taps(b, flat, taps, in);
  out.insert(out.begin() + 1, channels);
  n.set_output(0, b.convert(b.reshape(y, out), b.dtype(x)));
}

void translate_affine_grid(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId theta = widen(b, n.input(0));
  std::vector<int64_t> size = n.ints_input(1, "size");
  auto rank = static_cast<int64_t>(size.size()) - 2;
  n.require(rank == 2 || rank == 3, "size must be [N, C, H, W] or [N, C, D, H, W]");
  n.require(b.shape(theta) == Shape{size[0], rank, rank + 1}, "theta does not fit size");
  bool align_corners = n.bool_attr("align_corners", false);
  Shape space(size.begin() + 2, size.end());
  auto points = element_count(space);
  n.require(points.has_value(), "size is out of range");
  // Homogeneous coordinates of the points, one column each: x, y, (z,) 1.
  DType type = b.dtype(theta);
  std::vector<ValueId> columns;
  for (int64_t axis = rank - 1; axis >= 0; --axis) {
    double extent = static_cast<double>(space[static_cast<size_t>(axis)]);
    ValueId i = b.iota(type, space, axis);
    ValueId at = kNoValue;
    if (align_corners) {
      at = b.sub(b.mul(i, extent > 1 ? 2 / (extent - 1) : 0.0), 1.0);
    } else {
      at = b.sub(b.div(b.add(b.mul(i, 2.0), 1.0), extent), 1.0);
    }
    columns.push_back(b.reshape(at, {*points, 1}));
  }
  columns.push_back(b.full(type, {*points, 1}, 1));
  DotAttrs attrs;
  attrs.lhs_contract = {2};
  attrs.rhs_contract = {1};
  ValueId grid = b.dot_general(theta, b.concat(columns, 1), attrs, type);
  Shape shape = {size[0]};
  shape.insert(shape.end(), space.begin(), space.end());
  shape.push_back(rank);
  n.set_output(0, b.convert(b.reshape(b.swap_axes(grid, 1, 2), shape), b.dtype(n.input(0))));
}

}  // namespace weft::onnx

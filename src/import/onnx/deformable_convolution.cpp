#include "import/builder/normalization.h"
#include "import/builder/precision.h"
#include "import/builder/sampling.h"
#include "import/onnx/convolution.h"

namespace weft::onnx {
namespace {

/// Coordinates along spatial axis `axis` of every tap of every position, [1, 1, K, out...].
ValueId tap_coordinates(GraphBuilder& b, DType type, const Windows& w, size_t axis, int64_t taps) {
  Shape shape = {1, 1, taps};
  shape.insert(shape.end(), w.out.begin(), w.out.end());
  table_size({taps}, "a window");
  HostTensor offsets(type, {1, 1, taps});
  int64_t inner = 1;
  for (size_t i = axis + 1; i < w.rank(); ++i) inner *= w.kernel[i];
  for (int64_t t = 0; t < taps; ++t) {
    int64_t along = t / inner % w.kernel[axis];
    offsets.set_double(t, static_cast<double>(along * w.dilations[axis] - w.low[axis]));
  }
  ValueId at = b.iota(type, shape, static_cast<int64_t>(axis) + 3);
  at = b.mul(at, static_cast<double>(w.strides[axis]));
  return b.add(at, b.broadcast_in_dim(b.constant(std::move(offsets)), shape, {0, 1, 2}));
}

}  // namespace

/// Every tap reads x, interpolated linearly, at its place plus an offset that is an input; then the
/// taps are contracted with the weights. Channels form offset_group groups with offsets of their
/// own.
void translate_deform_conv(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = widen(b, n.input(0)), weights = widen(b, n.input(1)), offset = widen(b, n.input(2));
  ConvolutionAttrs checked = read_convolution(n, x, weights);
  Windows w = read_windows(n, spatial_extents(n, x),
                           Shape(b.shape(weights).begin() + 2, b.shape(weights).end()));
  int64_t batch = b.extent(x, 0), channels = b.extent(x, 1), groups = checked.groups;
  int64_t offset_groups = n.int_attr("offset_group", 1), rank = static_cast<int64_t>(w.rank());
  n.require(offset_groups >= 1 && channels % offset_groups == 0,
            "offset_group does not divide the channels");
  auto taps = element_count(w.kernel), positions = element_count(w.out);
  auto elements = element_count(w.extent);
  n.require(taps && positions && elements && *elements > 0, "the input has an impossible extent");
  Shape offset_shape = {batch, offset_groups, *taps, rank};
  offset_shape.insert(offset_shape.end(), w.out.begin(), w.out.end());
  offset = b.reshape(offset, offset_shape);
  // Points: the taps of all positions, for each sample and offset group.
  Shape points = {batch * offset_groups, *taps * *positions};
  std::vector<std::vector<AxisTap>> sampled;
  for (size_t axis = 0; axis < w.rank(); ++axis) {
    ValueId at = b.add(b.pick(offset, 3, static_cast<int64_t>(axis)),
                       tap_coordinates(b, b.dtype(x), w, axis, *taps));
    sampled.push_back(linear_taps(b, b.reshape(at, points), w.extent[axis]));
  }
  ValueId flat = b.reshape(x, {points[0], channels / offset_groups, *elements});
  ValueId columns = sum_of_taps(b, flat, sampled, w.extent);
  if (n.has_input(4)) {
    ValueId mask = b.reshape(widen(b, n.input(4)), {points[0], 1, points[1]});
    columns = b.mul(columns, mask);
  }
  // [N, groups, C / groups, K, P] with [groups, O / groups, C / groups, K].
  int64_t outputs = b.extent(weights, 0);
  columns = b.reshape(columns, {batch, groups, channels / groups, *taps, *positions});
  weights = b.reshape(weights, {groups, outputs / groups, channels / groups, *taps});
  DotAttrs attrs{{0}, {1}, {2, 3}, {2, 3}};
  ValueId y = b.dot_general(weights, columns, attrs, b.dtype(x));
  y = b.transpose(y, {2, 0, 1, 3});
  Shape shape = {batch, outputs};
  shape.insert(shape.end(), w.out.begin(), w.out.end());
  y = b.reshape(y, shape);
  if (n.has_input(3)) y = b.add(y, per_channel(b, widen(b, n.input(3)), b.rank(y)));
  n.set_output(0, b.convert(y, b.dtype(n.input(0))));
}

}  // namespace weft::onnx

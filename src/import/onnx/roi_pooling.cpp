#include "import/onnx/roi_pooling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "import/builder/precision.h"

namespace weft::onnx {
namespace {

constexpr int64_t kMaxSamples = 64;

/// One axis of RoiAlign: where each roi begins on the feature map, how long it is, and how it is
/// sampled.
struct RoiAxis {
  ValueId begin, length;  ///< [R, 1]
  int64_t extent;         ///< of the feature map
  int64_t bins, samples;  ///< samples per bin, at most
  ValueId counts;         ///< [R, 1]: samples per bin of each roi
};

/// The two elements that each sample interpolates, [R, bins * samples], with weights that are 0
/// where the sample does not count.
struct SamplePair {
  ValueId index[2], weight[2];
  ValueId used;  ///< whether the roi has this sample
};

SamplePair sample_axis(GraphBuilder& b, const RoiAxis& axis) {
  DType type = b.dtype(axis.begin);
  Shape shape = {b.extent(axis.begin, 0), axis.bins, axis.samples},
        flat = {shape[0], shape[1] * shape[2]};
  ValueId bin = b.iota(type, shape, 1), sample = b.iota(type, shape, 2);
  const auto spread = [&](ValueId v) { return b.broadcast_in_dim(v, shape, {0, 1}); };
  ValueId size = spread(b.div(axis.length, static_cast<double>(axis.bins)));
  ValueId within = b.div(b.mul(b.add(sample, 0.5), size), spread(axis.counts));
  ValueId x = b.add(b.add(spread(axis.begin), b.mul(bin, size)), within);
  ValueId used = b.binary(ScalarOp::kLt, sample, spread(axis.counts));
  ValueId after = b.binary(ScalarOp::kGe, x, b.scalar(type, -1));
  ValueId before = b.binary(ScalarOp::kLe, x, b.scalar(type, static_cast<double>(axis.extent)));
  ValueId counts = b.binary(ScalarOp::kAnd, used, b.binary(ScalarOp::kAnd, after, before));
  double last = static_cast<double>(axis.extent - 1);
  x = b.max(b.min(x, last), 0.0);
  ValueId low = b.unary(ScalarOp::kFloor, x), t = b.sub(x, low);
  ValueId high = b.min(b.add(low, 1.0), last), zero = b.scalar(type, 0);
  ValueId rest = b.sub(b.scalar(type, 1), t);
  const auto index = [&](ValueId v) { return b.convert(b.reshape(v, flat), DType::kI64); };
  const auto weight = [&](ValueId v) { return b.reshape(b.select(counts, v, zero), flat); };
  return {{index(low), index(high)}, {weight(rest), weight(t)}, b.reshape(used, flat)};
}

/// Samples per bin of each roi [R, 1] and their maximum. Without sampling_ratio they depend on the
/// sizes of the rois, which then must be known.
std::pair<ValueId, int64_t> sample_counts(OpContext& n, ValueId length, int64_t bins) {
  GraphBuilder& b = n.b;
  int64_t ratio = n.int_attr("sampling_ratio", 0);
  if (ratio > kMaxSamples) n.unsupported("a sampling_ratio of more than 64");
  DType type = b.dtype(length);
  if (ratio > 0) return {b.full(type, b.shape(length), static_cast<double>(ratio)), ratio};
  ValueId counts = b.unary(ScalarOp::kCeil, b.div(length, static_cast<double>(bins)));
  counts = b.max(counts, 1.0);
  const HostTensor* known = b.constant_value(counts);
  if (known == nullptr) n.constant_input(1, "rois (because sampling_ratio is 0)");
  WEFT_CHECK(known != nullptr, "sample counts follow from constants");
  double most = 1;
  for (int64_t i = 0; i < known->size(); ++i) most = std::max(most, known->at_double(i));
  if (!(most <= kMaxSamples)) n.unsupported("more than 64 samples per bin");
  return {counts, static_cast<int64_t>(most)};
}

/// The feature map of each roi, [R, C, H, W].
ValueId maps_of_rois(OpContext& n, ValueId x, ValueId batch_indices) {
  GraphBuilder& b = n.b;
  return b.gather(x, b.wrap_indices(b.convert(batch_indices, DType::kI64), b.extent(x, 0)), 0);
}

int64_t bins_attr(OpContext& n, std::string_view name) {
  int64_t bins = n.int_attr(name, 1);
  n.require(bins >= 1 && bins < (int64_t{1} << 20), "the output extents are out of range");
  return bins;
}

/// Both axes of RoiAlign, height first.
struct RoiSamples {
  SamplePair pairs[2];
  int64_t bins[2], samples[2];
  ValueId counts[2];
};

/// `rois` are x1, y1, x2, y2 of the feature map x.
RoiSamples sample_rois(OpContext& n, ValueId x, ValueId rois) {
  GraphBuilder& b = n.b;
  std::string default_mode = n.opset() >= 16 ? "half_pixel" : "output_half_pixel";
  bool half_pixel = n.string_attr("coordinate_transformation_mode", default_mode) == "half_pixel";
  ValueId corners = b.mul(rois, double{n.float_attr("spatial_scale", 1.0f)});
  if (half_pixel) corners = b.sub(corners, 0.5);
  RoiSamples result;
  result.bins[0] = bins_attr(n, "output_height");
  result.bins[1] = bins_attr(n, "output_width");
  for (int64_t i = 0; i < 2; ++i) {
    ValueId begin = b.slice_axis(corners, 1, 1 - i, 2 - i);
    ValueId length = b.sub(b.slice_axis(corners, 1, 3 - i, 4 - i), begin);
    if (!half_pixel) length = b.max(length, 1.0);
    std::tie(result.counts[i], result.samples[i]) = sample_counts(n, length, result.bins[i]);
    result.pairs[i] = sample_axis(b, {begin, length, b.extent(x, 2 + i), result.bins[i],
                                      result.samples[i], result.counts[i]});
  }
  return result;
}

/// The weighted elements [R, C, rows, columns] at one corner of every sample's square.
ValueId weighted_corner(GraphBuilder& b, ValueId maps, const RoiSamples& s, int row, int column) {
  ValueId rows = b.gather(b.swap_axes(maps, 1, 2), s.pairs[0].index[row], 1, 1);
  ValueId corner = b.gather(b.transpose(rows, {0, 3, 1, 2}), s.pairs[1].index[column], 1, 1);
  ValueId weight = b.mul(b.unsqueeze(s.pairs[0].weight[row], {1, 3}),
                         b.unsqueeze(s.pairs[1].weight[column], {1, 2}));
  return b.mul(b.transpose(corner, {0, 3, 2, 1}), weight);
}

/// Samples [R, C, rows, columns] joined to bins: their mean, or the maximum of those that count.
ValueId join_samples(GraphBuilder& b, ValueId value, const RoiSamples& s, bool mean) {
  int64_t rois = b.extent(value, 0);
  Shape split = {rois, b.extent(value, 1), s.bins[0], s.samples[0], s.bins[1], s.samples[1]};
  if (mean) {
    ValueId total = b.reshape(b.mul(s.counts[0], s.counts[1]), {rois, 1, 1, 1});
    return b.div(b.reduce(Combiner::kSum, b.reshape(value, split), {3, 5}, false), total);
  }
  ValueId used = b.binary(ScalarOp::kAnd, b.unsqueeze(s.pairs[0].used, {1, 3}),
                          b.unsqueeze(s.pairs[1].used, {1, 2}));
  ValueId least = b.scalar(b.dtype(value), -std::numeric_limits<double>::infinity());
  value = b.select(used, value, least);
  return b.reduce(Combiner::kMax, b.reshape(value, split), {3, 5}, false);
}

}  // namespace

/// Each bin is the mean (or maximum) of bilinear samples on a regular grid inside it. The maximum
/// is over the weighted corners of each sample, as ONNX defines it.
void translate_roi_align(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = widen(b, n.input(0)), rois = b.convert(n.input(1), b.dtype(x));
  n.require(b.rank(x) == 4 && b.rank(rois) == 2 && b.extent(rois, 1) == 4 &&
                b.shape(n.input(2)) == Shape{b.extent(rois, 0)},
            "X must be [N, C, H, W], rois [R, 4] and batch_indices [R]");
  n.require(b.size(x) > 0, "the feature map is empty");
  std::string mode = n.string_attr("mode", "avg");
  n.require(mode == "avg" || mode == "max", "mode must be avg or max");
  bool mean = mode == "avg";
  RoiSamples samples = sample_rois(n, x, rois);
  ValueId maps = maps_of_rois(n, x, n.input(2));
  ValueId value = weighted_corner(b, maps, samples, 0, 0);
  for (int k = 1; k < 4; ++k) {
    ValueId corner = weighted_corner(b, maps, samples, k / 2, k % 2);
    value = mean ? b.add(value, corner) : b.max(value, corner);
  }
  value = join_samples(b, value, samples, mean);
  n.set_output(0, b.convert(value, b.dtype(n.input(0))));
}

/// The largest element of each bin, whose borders are whole elements: a masked maximum along the
/// height, then along the width. An empty bin is 0.
void translate_max_roi_pool(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0), rois = widen(b, n.input(1));
  n.require(b.rank(x) == 4 && b.rank(rois) == 2 && b.extent(rois, 1) == 5,
            "X must be [N, C, H, W] and rois [R, 5]");
  std::vector<int64_t> pooled = n.ints_attr("pooled_shape", {});
  n.require(pooled.size() == 2 && pooled[0] >= 1 && pooled[1] >= 1 &&
                std::max(pooled[0], pooled[1]) < (int64_t{1} << 20),
            "pooled_shape must be [height, width]");
  DType type = b.dtype(rois);
  double scale = n.float_attr("spatial_scale", 1.0f);
  ValueId corners = b.unary(ScalarOp::kFloor, b.add(b.mul(rois, scale), 0.5));
  ValueId value = maps_of_rois(n, x, b.pick(rois, 1, 0));
  ValueId least = b.scalar(b.dtype(x), -std::numeric_limits<double>::infinity());
  for (int64_t i = 0; i < 2; ++i) {
    int64_t bins = pooled[static_cast<size_t>(i)], extent = b.extent(x, 2 + i);
    ValueId begin = b.slice_axis(corners, 1, 2 - i, 3 - i);
    ValueId end = b.slice_axis(corners, 1, 4 - i, 5 - i);
    ValueId length = b.max(b.add(b.sub(end, begin), 1.0), 1.0);
    ValueId size = b.div(length, static_cast<double>(bins));
    ValueId bin = b.iota(type, {b.extent(rois, 0), bins}, 1);
    ValueId first = b.add(b.unary(ScalarOp::kFloor, b.mul(bin, size)), begin);
    ValueId last = b.add(b.unary(ScalarOp::kCeil, b.mul(b.add(bin, 1.0), size)), begin);
    ValueId at = b.iota(type, {b.extent(rois, 0), bins, extent}, 2);
    ValueId inside = b.binary(ScalarOp::kAnd, b.binary(ScalarOp::kGe, at, b.unsqueeze(first, {2})),
                              b.binary(ScalarOp::kLt, at, b.unsqueeze(last, {2})));
    // [R, 1, bins, extent, 1] over [R, C, 1, extent, other]; the reduced axis becomes the bins.
    if (i == 1) value = b.swap_axes(value, 2, 3);
    ValueId masked = b.select(b.unsqueeze(inside, {1, 4}), b.unsqueeze(value, {2}), least);
    value = b.reduce(Combiner::kMax, masked, {3}, false);
    if (i == 1) value = b.swap_axes(value, 2, 3);
  }
  ValueId empty = b.binary(ScalarOp::kEq, value, least);
  n.set_output(0, b.select(empty, b.scalar(b.dtype(x), 0), value));
}

}  // namespace weft::onnx

#include <algorithm>
#include <limits>
#include <numeric>

#include "import/builder/precision.h"
#include "import/onnx/roi_pooling.h"
#include "import/onnx/windows.h"

namespace weft::onnx {
namespace {

/// Larger windows are not unrolled into slices.
constexpr int64_t kMaxUnrolledTaps = 1024;

Windows read_pooling(OpContext& n, ValueId x) {
  auto kernel = n.ints_attr("kernel_shape");
  n.require(kernel.has_value(), "kernel_shape is missing");
  return read_windows(n, spatial_extents(n, x), *kernel);
}

/// The windows over all axes of [N, C, spatial...].
WindowAttrs over_all_axes(const Windows& w, Combiner combiner) {
  const auto with_outer = [](const std::vector<int64_t>& spatial, int64_t outer) {
    std::vector<int64_t> all = {outer, outer};
    all.insert(all.end(), spatial.begin(), spatial.end());
    return all;
  };
  WindowAttrs attrs;
  attrs.window = with_outer(w.kernel, 1);
  attrs.strides = with_outer(w.strides, 1);
  attrs.dilations = with_outer(w.dilations, 1);
  attrs.low = with_outer(w.low, 0);
  attrs.high = with_outer(w.high, 0);
  for (size_t i = 0; i < w.rank(); ++i) attrs.high[i + 2] += w.overhang[i];
  attrs.combiner = combiner;
  return attrs;
}

ValueId lowest(GraphBuilder& b, DType type) {
  if (is_float(type)) return b.scalar(type, -std::numeric_limits<double>::infinity());
  if (!is_signed_integer(type)) return b.scalar_int(type, 0);
  return b.scalar_int(type, std::numeric_limits<int64_t>::min() >> (64 - 8 * byte_size(type)));
}

/// Distance of neighbours along each spatial axis in the flat index of an image.
std::vector<int64_t> image_strides(const Windows& w, bool column_major) {
  std::vector<int64_t> strides(w.rank(), 1);
  int64_t product = 1;
  for (size_t k = 0; k < w.rank(); ++k) {
    size_t i = column_major ? k : w.rank() - 1 - k;
    strides[i] = product;
    product *= w.extent[i];
  }
  return strides;
}

/// Calls visit(taps) for every position in the window, in row-major order.
template <typename Visit>
void for_each_tap(const Windows& w, const Visit& visit) {
  std::vector<int64_t> tap(w.rank(), 0);
  for (bool more = true; more;) {
    visit(tap);
    more = false;
    for (size_t i = w.rank(); i-- > 0 && !more;) {
      more = ++tap[i] < w.kernel[i];
      if (!more) tap[i] = 0;
    }
  }
}

/// Flat index in the whole input of each window's largest element: the taps side by side on a new
/// axis, the first largest of them, and the index arithmetic of its position.
ValueId max_indices(OpContext& n, ValueId x, const Windows& w) {
  GraphBuilder& b = n.b;
  int64_t taps = 1;
  for (int64_t k : w.kernel) {
    taps *= k;
    if (taps > kMaxUnrolledTaps) n.unsupported("Indices of a window of more than 1024 elements");
  }
  const Shape shape = b.shape(x);
  WindowAttrs all = over_all_axes(w, Combiner::kMax);
  ValueId padded = b.pad(x, lowest(b, b.dtype(x)), all.low, all.high);
  Shape out = {shape[0], shape[1]};
  out.insert(out.end(), w.out.begin(), w.out.end());
  std::vector<int64_t> strides = image_strides(w, n.int_attr("storage_order", 0) == 1);
  std::vector<ValueId> views;
  std::vector<int64_t> offsets;
  for_each_tap(w, [&](const std::vector<int64_t>& tap) {
    std::vector<int64_t> start = {0, 0};
    int64_t offset = 0;
    for (size_t i = 0; i < w.rank(); ++i) {
      start.push_back(tap[i] * w.dilations[i]);
      offset += (tap[i] * w.dilations[i] - w.low[i]) * strides[i];
    }
    views.push_back(b.unsqueeze(b.slice(padded, start, all.strides, out), {0}));
    offsets.push_back(offset);
  });
  ValueId best = b.arg_reduce(Combiner::kArgMax, b.concat(views, 0), 0, false);
  ValueId index = b.gather(b.constant_ints(offsets), best, 0);
  for (size_t i = 0; i < w.rank(); ++i) {
    ValueId at = b.iota(DType::kI64, out, static_cast<int64_t>(i) + 2);
    index = b.add(index, b.mul(at, b.scalar_int(DType::kI64, w.strides[i] * strides[i])));
  }
  int64_t image =
      std::accumulate(w.extent.begin(), w.extent.end(), int64_t{1}, std::multiplies<int64_t>());
  ValueId plane = b.iota(DType::kI64, out, 1);
  plane = b.mul(plane, b.scalar_int(DType::kI64, image));
  ValueId sample = b.iota(DType::kI64, out, 0);
  sample = b.mul(sample, b.scalar_int(DType::kI64, image * shape[1]));
  return b.add(index, b.add(sample, plane));
}

void translate_max_pool(OpContext& n) {
  ValueId x = n.input(0);
  Windows w = read_pooling(n, x);
  n.set_output(0, n.b.reduce_window(x, over_all_axes(w, Combiner::kMax)));
  if (n.wants_output(1)) n.set_output(1, max_indices(n, x, w));
}

/// For each output position along axis i, how many taps of its window count.
std::vector<double> counted_taps(const Windows& w, size_t i, bool include_padding) {
  table_size({w.out[i]}, "average pooling to an axis");
  int64_t begin = include_padding ? -w.low[i] : 0;
  int64_t end = w.extent[i] + (include_padding ? w.high[i] : 0);
  std::vector<double> counts;
  for (int64_t o = 0; o < w.out[i]; ++o) {
    int64_t first = o * w.strides[i] - w.low[i], d = w.dilations[i];
    int64_t skipped = std::clamp<int64_t>((begin - first + d - 1) / d, 0, w.kernel[i]);
    if (first >= begin) skipped = 0;
    int64_t fitting = end <= first ? 0 : std::min(w.kernel[i], (end - first + d - 1) / d);
    counts.push_back(static_cast<double>(std::max<int64_t>(0, fitting - skipped)));
  }
  return counts;
}

}  // namespace

/// The sum of each window divided by its size: a scalar where all windows count alike, else a
/// constant product of one vector per axis.
ValueId average_pool(OpContext& n, ValueId x) {
  GraphBuilder& b = n.b;
  Windows w = read_pooling(n, x);
  bool include_padding = n.bool_attr("count_include_pad", false);
  ValueId sum = b.reduce_window(x, over_all_axes(w, Combiner::kSum));
  double common = 1;
  ValueId varying = kNoValue;
  for (size_t i = 0; i < w.rank(); ++i) {
    std::vector<double> counts = counted_taps(w, i, include_padding);
    bool uniform = std::all_of(counts.begin(), counts.end(),
                               [&](double count) { return count == counts.front(); });
    if (uniform) {
      if (!counts.empty()) common *= counts.front();
      continue;
    }
    Shape shape(w.rank() - i, 1);
    shape[0] = w.out[i];
    ValueId vector = b.constant_floats(b.dtype(x), counts, shape);
    varying = varying == kNoValue ? vector : b.mul(varying, vector);
  }
  ValueId size = b.scalar(b.dtype(x), common);
  if (varying != kNoValue) size = common == 1 ? varying : b.mul(varying, size);
  return b.div(sum, size);
}

namespace {

void translate_average_pool(OpContext& n) {
  ValueId y = average_pool(n, widen(n.b, n.input(0)));
  n.set_output(0, n.b.convert(y, n.b.dtype(n.input(0))));
}

/// (sum of |x|^p)^(1/p) of what `sum` adds up.
template <typename Sum>
ValueId lp_norm(GraphBuilder& b, ValueId x, double p, const Sum& sum) {
  if (p == 1) return sum(b.unary(ScalarOp::kAbs, x));
  if (p == 2) return b.sqrt(sum(b.mul(x, x)));
  ValueId power = b.binary(ScalarOp::kPow, b.unary(ScalarOp::kAbs, x), p);
  return b.binary(ScalarOp::kPow, sum(power), 1.0 / p);
}

void translate_lp_pool(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = widen(b, n.input(0));
  WindowAttrs attrs = over_all_axes(read_pooling(n, x), Combiner::kSum);
  double p = static_cast<double>(n.int_attr("p", 2));
  n.require(p >= 1, "p must be positive");
  ValueId y = lp_norm(b, x, p, [&](ValueId v) { return b.reduce_window(v, attrs); });
  n.set_output(0, b.convert(y, b.dtype(n.input(0))));
}

std::vector<int64_t> spatial_axes(OpContext& n) {
  std::vector<int64_t> axes(spatial_extents(n, n.input(0)).size());
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}

void translate_global_average_pool(OpContext& n) {
  ValueId y = n.b.reduce_mean(widen(n.b, n.input(0)), spatial_axes(n), true);
  n.set_output(0, n.b.convert(y, n.b.dtype(n.input(0))));
}

void translate_global_max_pool(OpContext& n) {
  n.set_output(0, n.b.reduce(Combiner::kMax, n.input(0), spatial_axes(n), true));
}

void translate_global_lp_pool(OpContext& n) {
  GraphBuilder& b = n.b;
  std::vector<int64_t> axes = spatial_axes(n);
  double p = static_cast<double>(n.int_attr("p", 2));
  n.require(p >= 1, "p must be positive");
  ValueId y = lp_norm(b, widen(b, n.input(0)), p,
                      [&](ValueId v) { return b.reduce(Combiner::kSum, v, axes, true); });
  n.set_output(0, b.convert(y, b.dtype(n.input(0))));
}

/// The values at their flat indices, zeros elsewhere. The indices refer to the output that the
/// window arithmetic gives; an output_shape larger than that is filled up with zeros.
void translate_max_unpool(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0), indices = n.input(1);
  n.require(b.shape(x) == b.shape(indices), "X and I must have one shape");
  Shape extents = spatial_extents(n, x);
  size_t rank = extents.size();
  auto kernel = n.ints_attr("kernel_shape");
  n.require(kernel && kernel->size() == rank, "kernel_shape must have one extent per spatial axis");
  std::vector<int64_t> strides = spatial_attr(n, "strides", rank, 1, 1);
  std::vector<int64_t> pads = spatial_attr(n, "pads", 2 * rank, 0, 0);
  Shape inferred = {b.extent(x, 0), b.extent(x, 1)};
  for (size_t i = 0; i < rank; ++i) {
    int64_t k = (*kernel)[i];
    n.require(k >= 1 && k < (int64_t{1} << 31), "kernel_shape is out of range");
    int64_t extent = (extents[i] - 1) * strides[i] + k - pads[i] - pads[i + rank];
    n.require(extent >= 0, "pads cut away the whole output");
    inferred.push_back(extent);
  }
  Shape wanted = n.has_input(2) ? n.ints_input(2, "output_shape") : inferred;
  n.require(wanted.size() == inferred.size(), "output_shape must have one extent per axis");
  auto count = element_count(inferred);
  n.require(count.has_value(), "the output is too large");
  ValueId flat = b.full(b.dtype(x), {*count}, 0);
  ValueId at = b.wrap_indices(b.reshape(indices, {b.size(x)}), *count);
  flat = b.scatter_elements(flat, at, b.reshape(x, {b.size(x)}), ScatterAttrs{});
  std::vector<int64_t> low(wanted.size(), 0), high;
  for (size_t i = 0; i < wanted.size(); ++i) {
    n.require(wanted[i] >= 0, "output_shape must not be negative");
    high.push_back(wanted[i] - inferred[i]);
  }
  ValueId y = b.reshape(flat, inferred);
  n.set_output(0, b.pad(y, b.scalar(b.dtype(x), 0), low, high));
}

const Translator kRows[] = {
    {"", "AveragePool", 1, translate_average_pool},
    {"", "GlobalAveragePool", 1, translate_global_average_pool},
    {"", "GlobalLpPool", 2, translate_global_lp_pool},
    {"", "GlobalMaxPool", 1, translate_global_max_pool},
    {"", "LpPool", 2, translate_lp_pool},
    {"", "MaxPool", 1, translate_max_pool},
    {"", "MaxRoiPool", 1, translate_max_roi_pool},
    {"", "MaxUnpool", 9, translate_max_unpool},
    {"", "RoiAlign", 10, translate_roi_align},
};

}  // namespace

TranslatorTable pooling_translators() { return kRows; }

}  // namespace weft::onnx

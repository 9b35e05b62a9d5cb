#include "import/onnx/interpolation.h"

#include <algorithm>
#include <cmath>

#include "import/onnx/windows.h"

namespace weft::onnx {
namespace {

constexpr size_t kMaxTaps = 512;

/// Coordinate in the input of output position o. In float32, as other runtimes compute it: a
/// nearest element is chosen by rounding, so the last bit counts.
float source_coordinate(const AxisSampling& axis, const InterpolationRule& rule, int64_t position) {
  auto o = static_cast<float>(position), scale = static_cast<float>(axis.scale);
  auto extent = static_cast<float>(axis.extent), last = extent - 1, out = extent * scale;
  if (rule.coordinates == "half_pixel") return (o + 0.5f) / scale - 0.5f;
  if (rule.coordinates == "asymmetric") return o / scale;
  if (rule.coordinates == "pytorch_half_pixel") {
    return axis.out == 1 ? -0.5f : (o + 0.5f) / scale - 0.5f;
  }
  if (rule.coordinates == "align_corners") return out == 1 ? 0 : o * last / (out - 1);
  if (rule.coordinates == "half_pixel_symmetric") {
    float adjustment = static_cast<float>(axis.out) / out;
    return extent / 2 * (1 - adjustment) + (o + 0.5f) / scale - 0.5f;
  }
  if (rule.coordinates == "tf_half_pixel_for_nn") return (o + 0.5f) / scale;
  if (rule.coordinates == "tf_crop_and_resize") {
    auto begin = static_cast<float>(axis.roi_begin), end = static_cast<float>(axis.roi_end);
    if (axis.out <= 1) return 0.5f * (begin + end) * last;
    return begin * last + o * (end - begin) * last / static_cast<float>(axis.out - 1);
  }
  refuse_invalid("coordinate_transformation_mode \"" + rule.coordinates +
                 "\" is not one that ONNX has");
}

int64_t nearest_index(const std::string& mode, float x) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (mode == "round_prefer_floor") return static_cast<int64_t>(std::ceil(x - 0.5f));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5f));
  refuse_invalid("nearest_mode \"" + mode + "\" is not one that ONNX has");
}

double linear_kernel(double x) { return std::max(0.0, 1 - std::abs(x)); }

double cubic_kernel(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

void add_nearest_tap(const AxisSampling& axis, const InterpolationRule& rule, Taps& taps) {
  std::vector<int64_t> indices;
  for (int64_t o = 0; o < axis.out; ++o) {
    float x = source_coordinate(axis, rule, o);
    if (!std::isfinite(x) || std::abs(x) > 1e15f) refuse_invalid("a coordinate is not finite");
    indices.push_back(std::clamp<int64_t>(nearest_index(rule.nearest, x), 0, axis.extent - 1));
  }
  taps.indices.push_back(std::move(indices));
}

/// The taps of a linear or cubic kernel, which antialiasing widens when the axis shrinks; their
/// weights then sum to 1 again. What lies outside takes the edge's value, or no weight with
/// exclude_outside.
void add_kernel_taps(const AxisSampling& axis, const InterpolationRule& rule, Taps& taps) {
  bool cubic = rule.mode == "cubic";
  double stretch = rule.antialias ? std::min(axis.scale, 1.0) : 1.0;
  double radius = (cubic ? 2 : 1) / stretch;
  if (!(radius < static_cast<double>(kMaxTaps) / 2)) {
    refuse_unsupported("an interpolation over more than 512 elements");
  }
  auto first = static_cast<int64_t>(std::floor(-radius)) + 1;
  int64_t count = 2 - 2 * first;
  table_size({axis.out, count}, "the weights of an interpolation, a table");
  auto positions = static_cast<size_t>(axis.out);
  taps.indices.assign(static_cast<size_t>(count), std::vector<int64_t>(positions));
  taps.weights.assign(static_cast<size_t>(count), std::vector<double>(positions));
  for (size_t o = 0; o < positions; ++o) {
    double x = source_coordinate(axis, rule, static_cast<int64_t>(o)), sum = 0;
    if (!std::isfinite(x) || std::abs(x) > 1e15) refuse_invalid("a coordinate is not finite");
    auto base = static_cast<int64_t>(std::floor(x));
    for (int64_t t = 0; t < count; ++t) {
      int64_t index = base + first + t;
      double distance = (static_cast<double>(index) - x) * stretch;
      double weight = cubic ? cubic_kernel(distance, rule.cubic_a) : linear_kernel(distance);
      if (rule.exclude_outside && (index < 0 || index >= axis.extent)) weight = 0;
      taps.indices[static_cast<size_t>(t)][o] = std::clamp<int64_t>(index, 0, axis.extent - 1);
      taps.weights[static_cast<size_t>(t)][o] = weight;
      sum += weight;
    }
    bool normalises = (rule.antialias || rule.exclude_outside) && sum != 0;
    for (auto& weights : taps.weights) weights[o] /= normalises ? sum : 1;
  }
}

/// Drops taps without weight, and weights that are all 1.
void simplify(Taps& taps) {
  for (size_t t = 0; t < taps.weights.size();) {
    const auto& weights = taps.weights[t];
    if (std::any_of(weights.begin(), weights.end(), [](double w) { return w != 0; })) {
      ++t;
      continue;
    }
    taps.weights.erase(taps.weights.begin() + static_cast<int64_t>(t));
    taps.indices.erase(taps.indices.begin() + static_cast<int64_t>(t));
  }
  bool copies =
      taps.weights.size() == 1 &&
      std::all_of(taps.weights[0].begin(), taps.weights[0].end(), [](double w) { return w == 1; });
  if (copies) taps.weights.clear();
}

}  // namespace

Taps make_taps(const AxisSampling& axis, const InterpolationRule& rule) {
  if (axis.extent <= 0 && axis.out > 0) refuse_invalid("an empty axis cannot be resized");
  table_size({axis.out}, "resizing to an axis");
  Taps taps;
  if (rule.coordinates == "tf_crop_and_resize") {
    for (int64_t o = 0; o < axis.out; ++o) {
      double x = source_coordinate(axis, rule, o);
      taps.outside.push_back(!(x >= 0 && x <= static_cast<double>(axis.extent - 1)));
    }
  }
  if (rule.mode == "nearest") {
    add_nearest_tap(axis, rule, taps);
  } else if (rule.mode == "linear" || rule.mode == "bilinear" || rule.mode == "cubic") {
    add_kernel_taps(axis, rule, taps);
    simplify(taps);
  } else {
    refuse_invalid("mode \"" + rule.mode + "\" is not one that ONNX has");
  }
  return taps;
}

}  // namespace weft::onnx

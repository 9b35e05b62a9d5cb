#include <algorithm>
#include <cmath>

#include "import/builder/precision.h"
#include "import/onnx/interpolation.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// Which axes change, to which extents, by which factors.
struct Target {
  std::vector<int64_t> axes, extents;
  std::vector<double> scales;
};

std::vector<double> number_input(OpContext& n, int index, std::string_view what) {
  HostTensor values = n.constant_input(index, what);
  std::vector<double> result;
  for (int64_t i = 0; i < values.size(); ++i) result.push_back(values.at_double(i));
  return result;
}

/// An optional input counts as absent when it is empty, as exporters write it.
bool has_values(OpContext& n, int index) {
  return n.has_input(index) && n.b.size(n.input(index)) > 0;
}

void check_scale(double scale) {
  if (!(scale > 0) || scale > 1e9) refuse_invalid("a scale is out of range");
}

/// Extents from `sizes`, where a policy may keep the aspect ratio: then one scale serves all axes.
void read_sizes(OpContext& n, Target& target, const std::vector<int64_t>& sizes) {
  n.require(sizes.size() == target.axes.size(), "sizes must have one entry per resized axis");
  std::string policy = n.string_attr("keep_aspect_ratio_policy", "stretch");
  ValueId x = n.input(0);
  double common = policy == "not_smaller" ? 0 : 1e30;
  for (size_t i = 0; i < sizes.size(); ++i) {
    n.require(sizes[i] >= 0 && sizes[i] < (int64_t{1} << 31), "sizes is out of range");
    int64_t extent = n.b.extent(x, target.axes[i]);
    n.require(extent > 0, "an empty axis cannot be resized");
    double scale = static_cast<double>(sizes[i]) / static_cast<double>(extent);
    common = policy == "not_smaller" ? std::max(common, scale) : std::min(common, scale);
    target.scales.push_back(scale);
    target.extents.push_back(sizes[i]);
  }
  if (policy == "stretch") return;
  n.require(policy == "not_smaller" || policy == "not_larger",
            "keep_aspect_ratio_policy is not one that ONNX has");
  for (size_t i = 0; i < sizes.size(); ++i) {
    double extent = static_cast<double>(n.b.extent(x, target.axes[i]));
    n.require(common * extent < 1e9, "sizes is out of range");
    target.scales[i] = common;
    target.extents[i] = static_cast<int64_t>(std::floor(common * extent + 0.5));
  }
}

void read_scales(OpContext& n, Target& target, std::vector<double> scales) {
  n.require(scales.size() == target.axes.size(), "scales must have one entry per resized axis");
  for (size_t i = 0; i < scales.size(); ++i) {
    check_scale(scales[i]);
    double extent = static_cast<double>(n.b.extent(n.input(0), target.axes[i])) * scales[i];
    n.require(extent < 1e9, "scales is out of range");
    target.extents.push_back(static_cast<int64_t>(std::floor(extent)));
  }
  target.scales = std::move(scales);
}

Target read_target(OpContext& n, int scales, int sizes) {
  Target target;
  int64_t rank = n.b.rank(n.input(0));
  if (auto axes = n.ints_attr("axes")) {
    for (int64_t axis : *axes) target.axes.push_back(GraphBuilder::normal_axis(axis, rank));
  } else {
    for (int64_t axis = 0; axis < rank; ++axis) target.axes.push_back(axis);
  }
  if (has_values(n, sizes)) {
    read_sizes(n, target, n.ints_input(sizes, "sizes"));
  } else {
    n.require(has_values(n, scales), "neither scales nor sizes is given");
    read_scales(n, target, number_input(n, scales, "scales"));
  }
  return target;
}

InterpolationRule read_rule(OpContext& n, std::string_view default_coordinates) {
  InterpolationRule rule;
  rule.mode = n.string_attr("mode", "nearest");
  rule.coordinates = n.string_attr("coordinate_transformation_mode", default_coordinates);
  rule.nearest = n.string_attr("nearest_mode", "round_prefer_floor");
  rule.cubic_a = n.float_attr("cubic_coeff_a", -0.75f);
  rule.exclude_outside = n.bool_attr("exclude_outside", false);
  rule.antialias = n.bool_attr("antialias", false);
  return rule;
}

/// One axis after the other; the result keeps the working type between them.
void resize(OpContext& n, const Target& target, const InterpolationRule& rule,
            const std::vector<double>& roi) {
  GraphBuilder& b = n.b;
  DType type = b.dtype(n.input(0));
  bool copies = rule.mode == "nearest";
  bool crops = rule.coordinates == "tf_crop_and_resize";
  n.require(!crops || roi.size() == 2 * target.axes.size(),
            "roi must have a begin and an end per resized axis");
  ValueId y = n.input(0);
  // Integers of up to 32 bits as float32, like other runtimes: the result is truncated, so the
  // rounding of a sum that is nearly whole counts.
  bool narrow = is_integer(type) && byte_size(type) <= 4;
  if (!copies) y = narrow ? b.convert(y, DType::kF32) : to_floating(b, y);
  std::vector<std::pair<int64_t, std::vector<bool>>> outside;
  for (size_t i = 0; i < target.axes.size(); ++i) {
    AxisSampling axis;
    axis.extent = b.extent(y, target.axes[i]);
    axis.out = target.extents[i];
    axis.scale = target.scales[i];
    if (crops) {
      axis.roi_begin = roi[i];
      axis.roi_end = roi[i + target.axes.size()];
    }
    Taps taps = make_taps(axis, rule);
    if (crops) outside.emplace_back(target.axes[i], taps.outside);
    y = apply_taps(b, y, target.axes[i], taps);
  }
  double fill = n.float_attr("extrapolation_value", 0.0f);
  for (const auto& [axis, mask] : outside) {
    if (std::none_of(mask.begin(), mask.end(), [](bool value) { return value; })) continue;
    HostTensor flags(DType::kBool, {static_cast<int64_t>(mask.size())});
    for (size_t i = 0; i < mask.size(); ++i) flags.set_int(static_cast<int64_t>(i), mask[i]);
    ValueId hit = b.broadcast_in_dim(b.constant(flags), b.shape(y), {axis});
    y = b.select(hit, b.scalar(b.dtype(y), fill), y);
  }
  if (is_integer(type) && !copies) y = b.unary(ScalarOp::kTrunc, y);
  n.set_output(0, b.convert(y, type));
}

void translate_resize(OpContext& n) {
  std::vector<double> roi;
  InterpolationRule rule = read_rule(n, "half_pixel");
  if (rule.coordinates == "tf_crop_and_resize") roi = number_input(n, 1, "roi");
  resize(n, read_target(n, 2, 3), rule, roi);
}

/// Resize-10 and Upsample: asymmetric coordinates, rounded down.
void translate_upsample(OpContext& n) {
  InterpolationRule rule = read_rule(n, "asymmetric");
  rule.coordinates = "asymmetric";
  rule.nearest = "floor";
  if (auto scales = n.floats_attr("scales")) {
    Target target;
    for (int64_t axis = 0; axis < n.b.rank(n.input(0)); ++axis) target.axes.push_back(axis);
    read_scales(n, target, std::vector<double>(scales->begin(), scales->end()));
    return resize(n, target, rule, {});
  }
  resize(n, read_target(n, 1, -1), rule, {});
}

void refuse_image_decoder(OpContext& n) {
  n.unsupported("decoding of image files: decode before the model runs");
}

const Translator kRows[] = {
    {"", "AffineGrid", 20, translate_affine_grid},  {"", "GridSample", 16, translate_grid_sample},
    {"", "ImageDecoder", 20, refuse_image_decoder}, {"", "Resize", 10, translate_upsample},
    {"", "Resize", 11, translate_resize},           {"", "Upsample", 7, translate_upsample},
};

}  // namespace

TranslatorTable resize_translators() { return kRows; }

}  // namespace weft::onnx

#pragma once

#include <string>
#include <vector>

#include "import/builder/taps.h"
#include "import/onnx/translator.h"

namespace weft::onnx {

/// How Resize finds and weighs the source elements: its attributes under the same names.
struct InterpolationRule {
  std::string mode, coordinates, nearest;
  double cubic_a = -0.75;
  bool exclude_outside = false, antialias = false;
};

/// One resized axis.
struct AxisSampling {
  int64_t extent = 0, out = 0;
  double scale = 1;
  double roi_begin = 0, roi_end = 1;  ///< tf_crop_and_resize
};

/// Refuses modes that ONNX does not have, and more taps than a kernel should unroll.
///     linear, half_pixel, extent 2, out 4   ->   indices {0,0,0,1} {0,1,1,1}, weights …
Taps make_taps(const AxisSampling& axis, const InterpolationRule& rule);

void translate_grid_sample(OpContext& n);
void translate_affine_grid(OpContext& n);

}  // namespace weft::onnx

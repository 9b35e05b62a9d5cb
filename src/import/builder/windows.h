#pragma once

#include <vector>

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// How a window slides over the spatial axes of a convolution or pooling: one entry per axis. The
/// taps of output position o lie at o * stride - low + t * dilation, t in [0, kernel).
struct Windows {
  std::vector<int64_t> extent;  ///< of the input
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> low;       ///< padding before the first element
  std::vector<int64_t> high;      ///< padding after the last that the model asks for
  std::vector<int64_t> overhang;  ///< further positions that the last window of ceil_mode reaches
  std::vector<int64_t> out;       ///< extent of the output

  size_t rank() const { return extent.size(); }
};

/// Pads such that the output has ceil(extent / stride) positions, an odd element at the end or
/// before the start.
void pad_to_same(Windows& w, bool extra_at_end);

/// Sets `out`, and with ceil_mode `overhang`; refuses windows that do not fit.
///     extent 5, kernel 2, stride 2, ceil_mode   ->   out 3, overhang 1
void count_positions(Windows& w, bool ceil_mode);

}  // namespace weft::onnx

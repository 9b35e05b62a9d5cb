#pragma once

#include <vector>

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// Mean and variance over some axes, which keep extent 1, and x without its mean.
struct Moments {
  Moments(GraphBuilder& b, ValueId x, const std::vector<int64_t>& axes);

  ValueId mean, centred, variance;
};

/// 1 / sqrt(variance + epsilon)
ValueId inverse_deviation(GraphBuilder& b, ValueId variance, double epsilon);

/// x over the root of the mean of its squares along some axes.
ValueId over_root_mean_square(GraphBuilder& b, ValueId x, const std::vector<int64_t>& axes,
                              double epsilon);

/// A value per channel as a tensor that broadcasts along the channel axis of `rank` axes.
///     f32[8], rank 4   ->   f32[1,8,1,1]
ValueId per_channel(GraphBuilder& b, ValueId values, int64_t rank, int64_t axis = 1);

}  // namespace weft::onnx

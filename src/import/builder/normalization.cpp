#include "import/builder/normalization.h"

namespace weft::onnx {

Moments::Moments(GraphBuilder& b, ValueId x, const std::vector<int64_t>& axes)
    : mean(b.reduce_mean(x, axes, true)),
      centred(b.sub(x, mean)),
      variance(b.reduce_mean(b.mul(centred, centred), axes, true)) {}

ValueId inverse_deviation(GraphBuilder& b, ValueId variance, double epsilon) {
  return b.unary(ScalarOp::kRsqrt, b.add(variance, epsilon));
}

ValueId over_root_mean_square(GraphBuilder& b, ValueId x, const std::vector<int64_t>& axes,
                              double epsilon) {
  ValueId square = b.reduce_mean(b.mul(x, x), axes, true);
  return b.mul(x, inverse_deviation(b, square, epsilon));
}

ValueId per_channel(GraphBuilder& b, ValueId values, int64_t rank, int64_t axis) {
  Shape shape(static_cast<size_t>(rank), 1);
  if (rank <= axis) refuse_invalid("a channel axis is missing");
  shape[static_cast<size_t>(axis)] = b.size(values);
  return b.reshape(values, shape);
}

}  // namespace weft::onnx

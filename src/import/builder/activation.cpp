#include "import/builder/activation.h"

namespace weft::onnx {
namespace {

/// alpha * (exp(x) - 1)
ValueId scaled_expm1(GraphBuilder& b, ValueId x, double alpha) {
  ValueId e = b.sub(b.exp(x), 1.0);
  return alpha == 1.0 ? e : b.mul(e, alpha);
}

ValueId compare(GraphBuilder& b, ScalarOp op, ValueId x, double number) {
  return b.binary(op, x, b.scalar(b.dtype(x), number));
}

/// x / 2 * (1 + f)
ValueId gelu_of(GraphBuilder& b, ValueId x, ValueId f) {
  return b.mul(b.mul(x, 0.5), b.add(f, 1.0));
}

}  // namespace

ValueId softplus(GraphBuilder& b, ValueId x) {
  ValueId tail = b.unary(ScalarOp::kLog1p, b.exp(b.neg(b.unary(ScalarOp::kAbs, x))));
  return b.add(b.max(x, 0.0), tail);
}

ValueId elu(GraphBuilder& b, ValueId x, double alpha) {
  ValueId below = scaled_expm1(b, x, alpha);
  return b.select(compare(b, ScalarOp::kGt, x, 0), x, below);
}

ValueId celu(GraphBuilder& b, ValueId x, double alpha) {
  ValueId below = scaled_expm1(b, alpha == 1.0 ? x : b.div(x, alpha), alpha);
  return b.add(b.max(x, 0.0), b.min(below, 0.0));
}

ValueId leaky_relu(GraphBuilder& b, ValueId x, double alpha) {
  ValueId below = b.mul(x, alpha);
  return b.select(compare(b, ScalarOp::kLt, x, 0), below, x);
}

ValueId thresholded_relu(GraphBuilder& b, ValueId x, double alpha) {
  ValueId above = compare(b, ScalarOp::kGt, x, alpha);
  return b.select(above, x, b.scalar(b.dtype(x), 0));
}

ValueId softsign(GraphBuilder& b, ValueId x) {
  return b.div(x, b.add(b.unary(ScalarOp::kAbs, x), 1.0));
}

ValueId mish(GraphBuilder& b, ValueId x) {
  return b.mul(x, b.unary(ScalarOp::kTanh, softplus(b, x)));
}

ValueId gelu(GraphBuilder& b, ValueId x) {
  return gelu_of(b, x, b.unary(ScalarOp::kErf, b.mul(x, 0.70710678118654752440)));
}

ValueId tanh_gelu(GraphBuilder& b, ValueId x) {
  ValueId cube = b.mul(b.mul(x, x), x);
  ValueId inner = b.mul(b.add(x, b.mul(cube, 0.044715)), 0.79788456080286535588);
  return gelu_of(b, x, b.unary(ScalarOp::kTanh, inner));
}

ValueId hard_sigmoid(GraphBuilder& b, ValueId x, double alpha, double beta) {
  return b.max(b.min(b.add(b.mul(x, alpha), beta), 1.0), 0.0);
}

ValueId swish(GraphBuilder& b, ValueId x, double alpha) {
  return b.mul(x, b.unary(ScalarOp::kSigmoid, alpha == 1.0 ? x : b.mul(x, alpha)));
}

}  // namespace weft::onnx

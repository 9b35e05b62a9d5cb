#include "import/builder/recurrent_activation.h"

namespace weft::onnx {

ValueId RecurrentActivation::apply(GraphBuilder& b, ValueId x) const {
  const auto zero = [&] { return b.scalar(b.dtype(x), 0); };
  if (clip > 0) x = b.max(b.min(x, clip), -clip);
  switch (kind) {
    case Kind::kRelu:
      return b.max(x, 0.0);
    case Kind::kTanh:
      return b.unary(ScalarOp::kTanh, x);
    case Kind::kSigmoid:
      return b.unary(ScalarOp::kSigmoid, x);
    case Kind::kAffine:
      return b.add(b.mul(x, alpha), beta);
    case Kind::kLeakyRelu:
      return b.select(b.binary(ScalarOp::kLt, x, zero()), b.mul(x, alpha), x);
    case Kind::kThresholdedRelu:
      return b.select(b.binary(ScalarOp::kGe, x, alpha), x, zero());
    case Kind::kScaledTanh:
      return b.mul(b.unary(ScalarOp::kTanh, b.mul(x, beta)), alpha);
    case Kind::kHardSigmoid:
      return b.max(b.min(b.add(b.mul(x, alpha), beta), 1.0), 0.0);
    case Kind::kElu:
      return b.select(b.binary(ScalarOp::kLt, x, zero()), b.mul(b.sub(b.exp(x), 1.0), alpha), x);
    case Kind::kSelu: {
      ValueId below = b.mul(b.sub(b.exp(x), 1.0), alpha);
      return b.mul(b.select(b.binary(ScalarOp::kGt, x, zero()), x, below), beta);
    }
    case Kind::kSoftsign:
      return b.div(x, b.add(b.unary(ScalarOp::kAbs, x), 1.0));
    case Kind::kSoftplus:
      return b.add(b.max(x, 0.0),
                   b.unary(ScalarOp::kLog1p, b.exp(b.neg(b.unary(ScalarOp::kAbs, x)))));
  }
  WEFT_CHECK(false, "an unknown recurrent activation");
}

}  // namespace weft::onnx

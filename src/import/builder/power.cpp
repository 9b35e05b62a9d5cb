#include "import/builder/power.h"

namespace weft::onnx {

namespace {

bool is_everywhere(GraphBuilder& b, ValueId v, double number) {
  const Node* made_by = b.maker(v);
  while (made_by != nullptr && made_by->op == GraphOp::kBroadcast) {
    v = made_by->operands[0];
    made_by = b.maker(v);
  }
  if (!b.is_constant(v)) return false;
  const HostTensor* value = b.constant_value(v);
  return value != nullptr && value->size() == 1 && value->at_double(0) == number;
}

/// Whether the result has the base's shape.
bool keeps_shape(const Shape& base, const Shape& exponent) {
  if (exponent.size() > base.size()) return false;
  const size_t before = base.size() - exponent.size();
  for (size_t d = 0; d < exponent.size(); ++d) {
    if (exponent[d] != 1 && exponent[d] != base[before + d]) return false;
  }
  return true;
}

}  // namespace

ValueId power(GraphBuilder& b, ValueId base, ValueId exponent) {
  const DType type = b.dtype(base);
  const bool is_exact_enough = type == DType::kF32 || type == DType::kF64;
  if (is_exact_enough && keeps_shape(b.shape(base), b.shape(exponent)) &&
      is_everywhere(b, exponent, 3))
    return b.mul(b.mul(base, base), base);
  return b.binary(ScalarOp::kPow, base, exponent);
}

}  // namespace weft::onnx

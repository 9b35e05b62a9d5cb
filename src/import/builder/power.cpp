#include "import/builder/power.h"

#include "import/builder/is_everywhere.h"

namespace weft::onnx {

namespace {

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

#include "import/builder/quantize.h"

namespace weft::onnx {
namespace {

/// Smallest and largest value of an integer type of at most 32 bits.
struct Range {
  explicit Range(DType type) {
    int64_t bits = 8 * byte_size(type);
    if (!is_integer(type) || bits > 32) {
      refuse_unsupported("quantisation to " + std::string(dtype_name(type)));
    }
    bool is_signed = is_signed_integer(type);
    low = is_signed ? -static_cast<double>(int64_t{1} << (bits - 1)) : 0;
    high = static_cast<double>((int64_t{1} << (is_signed ? bits - 1 : bits)) - 1);
  }
  double low, high;
};

}  // namespace

ValueId round_to_integer(GraphBuilder& b, ValueId y, ValueId zero_point, DType type) {
  Range range(type);
  return round_to_range(b, y, zero_point, type, range.low, range.high);
}

ValueId round_to_range(GraphBuilder& b, ValueId y, ValueId zero_point, DType type, double lowest,
                       double highest) {
  y = b.unary(ScalarOp::kRoundEven, y);
  if (zero_point != kNoValue) y = b.add(y, b.convert(zero_point, b.dtype(y)));
  return b.convert(b.max(b.min(y, highest), lowest), type);
}

DynamicQuantization quantize_dynamically(GraphBuilder& b, ValueId x) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < b.rank(x); ++i) axes.push_back(i);
  ValueId high = b.max(b.reduce(Combiner::kMax, x, axes, false), 0.0);
  ValueId low = b.min(b.reduce(Combiner::kMin, x, axes, false), 0.0);
  ValueId range = b.sub(high, low), zero = b.scalar(DType::kF32, 0);
  range = b.select(b.binary(ScalarOp::kEq, range, zero), b.scalar(DType::kF32, 1), range);
  ValueId scale = b.div(range, 255.0);
  ValueId zero_point = b.sub(zero, b.div(low, scale));
  zero_point = round_to_integer(b, zero_point, kNoValue, DType::kU8);
  return {round_to_integer(b, b.div(x, scale), zero_point, DType::kU8), scale, zero_point};
}

ValueId without_zero_point(GraphBuilder& b, ValueId v, ValueId zero_point) {
  v = b.convert(v, DType::kI32);
  return zero_point == kNoValue ? v : b.sub(v, b.convert(zero_point, DType::kI32));
}

}  // namespace weft::onnx

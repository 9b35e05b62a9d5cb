#include "import/builder/sampling.h"

namespace weft::onnx {

AxisTap zero_padded_tap(GraphBuilder& b, ValueId position, ValueId weight, int64_t extent) {
  AxisTap tap;
  tap.weight = weight;
  double last = static_cast<double>(extent - 1);
  ValueId first = b.binary(ScalarOp::kGe, position, b.scalar(b.dtype(position), 0));
  ValueId end = b.binary(ScalarOp::kLe, position, b.scalar(b.dtype(position), last));
  tap.inside = b.binary(ScalarOp::kAnd, first, end);
  tap.index = b.convert(b.max(b.min(position, last), 0.0), DType::kI64);
  return tap;
}

std::vector<AxisTap> linear_taps(GraphBuilder& b, ValueId x, int64_t extent) {
  ValueId base = b.unary(ScalarOp::kFloor, x), t = b.sub(x, base);
  ValueId low = b.sub(b.scalar(b.dtype(t), 1), t);
  return {zero_padded_tap(b, base, low, extent), zero_padded_tap(b, b.add(base, 1.0), t, extent)};
}

ValueId sum_of_taps(GraphBuilder& b, ValueId flat, const std::vector<std::vector<AxisTap>>& taps,
                    const Shape& extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t i = extents.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * extents[i + 1];
  std::vector<size_t> choice(taps.size(), 0);
  ValueId sum = kNoValue;
  for (bool more = true; more;) {
    ValueId index = kNoValue, inside = kNoValue, weight = kNoValue;
    for (size_t i = 0; i < taps.size(); ++i) {
      const AxisTap& tap = taps[i][choice[i]];
      ValueId offset = b.mul(tap.index, b.scalar_int(DType::kI64, strides[i]));
      index = index == kNoValue ? offset : b.add(index, offset);
      if (tap.inside != kNoValue) {
        inside = inside == kNoValue ? tap.inside : b.binary(ScalarOp::kAnd, inside, tap.inside);
      }
      if (tap.weight != kNoValue) {
        weight = weight == kNoValue ? tap.weight : b.mul(weight, tap.weight);
      }
    }
    ValueId term = b.gather(flat, index, 2, 1);
    if (inside != kNoValue) {
      ValueId zero = b.scalar_int(b.dtype(flat), 0);
      term = b.select(b.unsqueeze(inside, {1}), term, zero);
    }
    if (weight != kNoValue) {
      term = b.mul(term, b.unsqueeze(b.convert(weight, b.dtype(flat)), {1}));
    }
    sum = sum == kNoValue ? term : b.add(sum, term);
    more = false;
    for (size_t i = taps.size(); i-- > 0 && !more;) {
      more = ++choice[i] < taps[i].size();
      if (!more) choice[i] = 0;
    }
  }
  return sum;
}

}  // namespace weft::onnx

#include <cmath>

#include "tile/check/evaluate.h"

namespace weft {
namespace {

Combiner combiner_of(TileCombiner c) {
  return c == TileCombiner::kSum    ? Combiner::kSum
         : c == TileCombiner::kProd ? Combiner::kProd
         : c == TileCombiner::kMin  ? Combiner::kMin
         : c == TileCombiner::kAnd  ? Combiner::kAnd
         : c == TileCombiner::kOr   ? Combiner::kOr
                                    : Combiner::kMax;
}

double sum_of(const std::vector<ScalarValue>& values) {
  double sum = 0;
  for (const ScalarValue& v : values) sum += v.f;
  return sum;
}

/// The first of the greatest; of floats the first NaN.
size_t best_of(DType type, const std::vector<ScalarValue>& values) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const bool nan = std::isnan(values[best].f);
    const bool greater =
        is_float(type) ? values[i].f > values[best].f : values[i].i > values[best].i;
    if (!nan && (greater || std::isnan(values[i].f))) best = i;
  }
  return best;
}

}  // namespace

std::vector<ScalarValue> reduce_values(TileCombiner combiner, DType type,
                                       const std::vector<ScalarValue>& values,
                                       const std::vector<int64_t>& positions) {
  if (combiner == TileCombiner::kArgMax) {
    if (values.empty()) return {};
    const size_t best = best_of(type, values);
    return {values[best], int_value(DType::kI64, positions[best])};
  }
  if (combiner == TileCombiner::kWelford) {
    const double count = static_cast<double>(values.size()), mean = sum_of(values) / count;
    double variance = 0;
    for (const ScalarValue& v : values) variance += (v.f - mean) * (v.f - mean);
    return {float_value(DType::kF64, mean), float_value(DType::kF64, variance / count)};
  }
  if (combiner == TileCombiner::kSum && is_float(type)) {
    return {float_value(DType::kF64, sum_of(values))};
  }
  ScalarValue all = combiner_identity(combiner_of(combiner), type);
  for (const ScalarValue& v : values) all = combine(combiner_of(combiner), all, v);
  return {all};
}

}  // namespace weft

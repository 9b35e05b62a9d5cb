#include "schedule/writer/moment_sums.h"

namespace weft {

namespace {

ScalarRef op(ScalarOp o, const ScalarRef& a, const ScalarRef& b) {
  return scalar_apply(o, {a, b}, a->type);
}

}  // namespace

ScalarRef shift_of(const ScalarRef& x) {
  const ScalarRef zero = scalar_constant(float_value(x->type, 0));
  const ScalarRef finite =
      scalar_apply(ScalarOp::kEq, {op(ScalarOp::kSub, x, x), zero}, DType::kBool);
  return scalar_apply(ScalarOp::kSelect, {finite, x, zero}, x->type);
}

ScalarRef total_of(const ShiftedSums& sums) {
  return op(ScalarOp::kAdd, sums.sum, op(ScalarOp::kMul, sums.count, sums.shift));
}

ScalarRef moment_about(const ShiftedSums& sums, const ScalarRef& mean) {
  const ScalarRef e = op(ScalarOp::kSub, sums.shift, mean);
  const ScalarRef twice = op(ScalarOp::kAdd, sums.sum, sums.sum);
  const ScalarRef moved =
      op(ScalarOp::kMul, e, op(ScalarOp::kAdd, twice, op(ScalarOp::kMul, sums.count, e)));
  return op(ScalarOp::kAdd, sums.squares, moved);
}

ScalarRef moment_of_part(const ScalarRef& count, const ScalarRef& total, const ScalarRef& moment,
                         const ScalarRef& mean) {
  const ScalarRef d = op(ScalarOp::kSub, op(ScalarOp::kDiv, total, count), mean);
  return op(ScalarOp::kAdd, moment, op(ScalarOp::kMul, count, op(ScalarOp::kMul, d, d)));
}

}  // namespace weft

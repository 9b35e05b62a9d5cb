#include "schedule/writer/best_positions.h"

#include <limits>

namespace weft {

namespace {

ScalarRef truth(ScalarOp op, std::vector<ScalarRef> operands) {
  return scalar_apply(op, std::move(operands), DType::kBool);
}

}  // namespace

bool keeps_position(const TensorExpr& e) {
  return e.combiner == Combiner::kArgMax || e.combiner == Combiner::kArgMin;
}

Combiner best_of(const TensorExpr& e) {
  return e.combiner == Combiner::kArgMax ? Combiner::kMax : Combiner::kMin;
}

Combiner pick_of(const TensorExpr& e) { return e.last_on_ties ? Combiner::kMax : Combiner::kMin; }

ScalarRef no_position(const TensorExpr& e) {
  return scalar_constant(
      int_value(DType::kI64, e.last_on_ties ? -1 : std::numeric_limits<int64_t>::max()));
}

ScalarRef same_value(const ScalarRef& a, const ScalarRef& b) {
  ScalarRef same = truth(ScalarOp::kEq, {a, b});
  if (!is_float(a->type)) return same;
  return truth(
      ScalarOp::kOr,
      {same, truth(ScalarOp::kAnd, {truth(ScalarOp::kIsNan, {a}), truth(ScalarOp::kIsNan, {b})})});
}

ScalarRef next_position(const TensorExpr& e, const ScalarRef& x, const ScalarRef& best,
                        const ScalarRef& old, const ScalarRef& here) {
  const bool max = best_of(e) == Combiner::kMax;
  ScalarOp op = max ? ScalarOp::kGt : ScalarOp::kLt;
  if (e.last_on_ties) op = max ? ScalarOp::kGe : ScalarOp::kLe;
  ScalarRef better =
      truth(ScalarOp::kOr, {truth(op, {x, best}), truth(ScalarOp::kEq, {old, no_position(e)})});
  if (is_float(x->type)) {
    ScalarRef nan = truth(ScalarOp::kIsNan, {x});
    if (!e.last_on_ties) {
      nan = truth(ScalarOp::kAnd, {nan, truth(ScalarOp::kNot, {truth(ScalarOp::kIsNan, {best})})});
    }
    better = truth(ScalarOp::kOr, {better, nan});
  }
  return scalar_apply(ScalarOp::kSelect, {better, here, old}, DType::kI64);
}

}  // namespace weft

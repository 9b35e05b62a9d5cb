#include "schedule/cpu/sum_apart.h"

#include <vector>

namespace weft {

namespace {

bool is_float_op(const ScalarRef& s, ScalarOp op) {
  return s->kind == Scalar::Kind::kApply && s->op == op && s->type == DType::kF32;
}

void collect_factors(const ScalarRef& s, std::vector<ScalarRef>* out) {
  if (!is_float_op(s, ScalarOp::kMul)) {
    out->push_back(s);
    return;
  }
  for (const ScalarRef& o : s->operands) collect_factors(o, out);
}

/// Null of none.
ScalarRef product_of(const std::vector<ScalarRef>& factors) {
  ScalarRef out;
  for (const ScalarRef& f : factors)
    out = out ? scalar_apply(ScalarOp::kMul, {out, f}, DType::kF32) : f;
  return out;
}

}  // namespace

std::optional<SumApart> sum_apart(const ScalarRef& product,
                                  const std::function<bool(const ScalarRef&)>& is_invariant,
                                  const std::function<bool(const ScalarRef&)>& is_short) {
  std::vector<ScalarRef> factors, scales, moving;
  collect_factors(product, &factors);
  for (const ScalarRef& f : factors) (is_invariant(f) ? scales : moving).push_back(f);
  SumApart out;
  out.scale = product_of(scales);
  for (size_t i = 0; i < moving.size() && moving.size() > 1; ++i) {
    if (!is_float_op(moving[i], ScalarOp::kSub)) continue;
    const ScalarRef value = moving[i]->operands[0], zero = moving[i]->operands[1];
    std::vector<ScalarRef> others = moving;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const ScalarRef beside = product_of(others);
    // A number is taken off where the value is made.
    if (zero->kind == Scalar::Kind::kConstant || !is_invariant(zero) || !is_short(beside)) continue;
    out.zero = zero;
    out.beside = beside;
    moving[i] = value;
    break;
  }
  if (moving.empty() || (!out.scale && !out.zero)) return std::nullopt;
  out.moving = product_of(moving);
  return out;
}

}  // namespace weft

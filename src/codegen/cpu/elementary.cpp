#include "codegen/cpu/elementary.h"

namespace weft::cpu {
namespace {

using V = LaneBuilder::V;
using Unary = V (*)(const LaneBuilder&, V);
using Binary = V (*)(const LaneBuilder&, V, V);

Unary single_form(ScalarOp op) {
  switch (op) {
    case ScalarOp::kExp:
      return exp_f32;
    case ScalarOp::kExpm1:
      return expm1_f32;
    case ScalarOp::kLog:
      return log_f32;
    case ScalarOp::kLog1p:
      return log1p_f32;
    case ScalarOp::kTanh:
      return tanh_f32;
    case ScalarOp::kSigmoid:
      return sigmoid_f32;
    case ScalarOp::kErf:
      return erf_f32;
    case ScalarOp::kSin:
      return sin_f32;
    case ScalarOp::kCos:
      return cos_f32;
    default:
      return nullptr;
  }
}

Unary double_form(ScalarOp op) {
  switch (op) {
    case ScalarOp::kExp:
      return exp_f64;
    case ScalarOp::kExpm1:
      return expm1_f64;
    case ScalarOp::kLog:
      return log_f64;
    case ScalarOp::kLog1p:
      return log1p_f64;
    case ScalarOp::kSin:
      return sin_f64;
    case ScalarOp::kCos:
      return cos_f64;
    case ScalarOp::kTan:
      return tan_f64;
    case ScalarOp::kAsin:
      return asin_f64;
    case ScalarOp::kAcos:
      return acos_f64;
    case ScalarOp::kAtan:
      return atan_f64;
    case ScalarOp::kSinh:
      return sinh_f64;
    case ScalarOp::kCosh:
      return cosh_f64;
    case ScalarOp::kTanh:
      return tanh_f64;
    case ScalarOp::kAsinh:
      return asinh_f64;
    case ScalarOp::kAcosh:
      return acosh_f64;
    case ScalarOp::kAtanh:
      return atanh_f64;
    case ScalarOp::kSigmoid:
      return sigmoid_f64;
    case ScalarOp::kErf:
      return erf_f64;
    default:
      return nullptr;
  }
}

Binary double_form_of_two(ScalarOp op) {
  if (op == ScalarOp::kPow) return pow_f64;
  if (op == ScalarOp::kAtan2) return atan2_f64;
  return nullptr;
}

}  // namespace

V elementary(const LaneBuilder& k, ScalarOp op, std::span<V const> operands) {
  V x = operands[0];
  const bool single = x->getType()->getScalarType()->isFloatTy();
  if (op == ScalarOp::kRem) return remainder_of(k, x, operands[1]);
  if (operands.size() == 1) {
    if (Unary f = single ? single_form(op) : nullptr) return f(k, x);
    Unary f = double_form(op);
    if (f == nullptr) return nullptr;
    return single ? k.to_f32(f(k, k.to_f64(x))) : f(k, x);
  }
  Binary f = double_form_of_two(op);
  if (f == nullptr) return nullptr;
  V y = operands[1];
  return single ? k.to_f32(f(k, k.to_f64(x), k.to_f64(y))) : f(k, x, y);
}

}  // namespace weft::cpu

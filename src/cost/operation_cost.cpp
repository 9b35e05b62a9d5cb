#include "cost/operation_cost.h"

#include <algorithm>

namespace weft {

namespace {

OperationCost on_floats(ScalarOp op, double divider, bool scales) {
  // AVX-512 scales by powers of two in one instruction, and half of the others take ports beside
  // those that multiply.
  const double exponential = scales ? 9 : 22;
  switch (op) {
    case ScalarOp::kMin:
    case ScalarOp::kMax:
      return {3, 6};  // NaN stays
    case ScalarOp::kDiv:
      return {1, 13, divider};
    case ScalarOp::kSqrt:
      return {1, 18, divider};
    case ScalarOp::kRsqrt:
      return {2, 31, 2 * divider};
    case ScalarOp::kExp:
      return {exponential, 50};
    case ScalarOp::kExpm1:
      return {18, 55};
    case ScalarOp::kLog:
      return {32, 70};
    case ScalarOp::kLog1p:
      return {38, 85};
    case ScalarOp::kSigmoid:
      return {scales ? 13.0 : 15.0, 70, divider};
    case ScalarOp::kTanh:
      return {15, 50, divider};
    case ScalarOp::kErf:
      return {19, 60, divider};
    case ScalarOp::kSign:
      return {5, 8};
    case ScalarOp::kSin:
    case ScalarOp::kCos:
      return {26, 60};
    case ScalarOp::kTan:
    case ScalarOp::kSinh:
    case ScalarOp::kCosh:
    case ScalarOp::kAsin:
    case ScalarOp::kAcos:
    case ScalarOp::kAtan:
    case ScalarOp::kAsinh:
    case ScalarOp::kAcosh:
    case ScalarOp::kAtanh:
      return {50, 100};
    case ScalarOp::kPow:
    case ScalarOp::kAtan2:
    case ScalarOp::kRem:
      return {100, 150};
    default:
      return {1, 4};
  }
}

}  // namespace

OperationCost cost_of(ScalarOp op, DType type, const Target& target) {
  // Of polynomials two thirds multiply: the others choose, round and scale.
  constexpr double kOfPolynomials = 2.0 / 3;
  if (!is_float(type)) {
    if (op == ScalarOp::kDiv || op == ScalarOp::kRem) return {2, 20, 10};
    if (op == ScalarOp::kThreefry) return {45, 75};
    return {1, 1};
  }
  const double width = std::max(1.0, target.vector_bytes / 32.0);
  const double wide = byte_size(type) > 4 ? 1.6 : 1;
  OperationCost cost = on_floats(op, 5 * width * wide, target.vector_bytes == 64);
  if (op == ScalarOp::kMul || cost.divider > 0) cost.products = 1;
  if (cost.instructions > 5) cost.products = kOfPolynomials * cost.instructions;
  return cost;
}

OperationCost conversion_cost(DType from, DType to, bool is_element) {
  // An element is repeated before it is converted: that, as the conversion itself, takes pipes that
  // move lanes, of which there are half as many as of others or fewer.
  if (from == DType::kF16) return {is_element ? 5.0 : 2.0, 8};
  if (from == DType::kBF16) return {is_element ? 3.0 : 2.0, 3};
  if (to == DType::kF16) return {2, 8};
  if (to == DType::kBF16) return {8, 8};  // what is rounded and what is no number, apart
  return {1, is_float(to) ? 4.0 : 1.0};
}

bool is_costly(const ScalarRef& s) {
  bool costly = false;
  visit(s, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kApply) return;
    costly |= (n.op >= ScalarOp::kExp && n.op <= ScalarOp::kErf) || n.op == ScalarOp::kDiv ||
              n.op == ScalarOp::kPow || n.op == ScalarOp::kThreefry;
  });
  return costly;
}

}  // namespace weft

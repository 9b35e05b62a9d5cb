#include <cmath>

#include "rewrite/simplifier.h"

namespace weft {
namespace {

bool is_rounding(ScalarOp op) {
  return op == ScalarOp::kFloor || op == ScalarOp::kCeil || op == ScalarOp::kRoundEven ||
         op == ScalarOp::kTrunc;
}

bool is_commutative(ScalarOp op) {
  return op == ScalarOp::kAdd || op == ScalarOp::kMul || op == ScalarOp::kAnd ||
         op == ScalarOp::kOr || op == ScalarOp::kXor;
}

/// f(x, x) is x.
bool is_idempotent(ScalarOp op) {
  return op == ScalarOp::kMin || op == ScalarOp::kMax || op == ScalarOp::kAnd ||
         op == ScalarOp::kOr;
}

/// Whether op(x, element) is x, bit for bit.
bool is_neutral(ScalarOp op, const HostTensor& element) {
  const bool floats = is_float(element.dtype());
  const double value = element.at_double(0);
  switch (op) {
    case ScalarOp::kMul:
    case ScalarOp::kDiv:
    case ScalarOp::kPow:
      return value == 1;
    case ScalarOp::kAdd:
      return value == 0 && (!floats || std::signbit(value));
    case ScalarOp::kSub:
      return value == 0 && !std::signbit(value);
    case ScalarOp::kOr:
    case ScalarOp::kXor:
    case ScalarOp::kShl:
    case ScalarOp::kShr:
      return element.at_int(0) == 0;
    case ScalarOp::kAnd:
      return element.dtype() == DType::kBool
                 ? element.at_int(0) == 1
                 : combiner_identity(Combiner::kAnd, element.dtype()).i == element.at_int(0);
    default:
      return false;
  }
}

/// Whether op(x, element) is `element` whatever x is.
bool is_absorbing(ScalarOp op, const HostTensor& element) {
  if (is_float(element.dtype())) return false;
  if (op == ScalarOp::kMul || op == ScalarOp::kAnd) return element.at_int(0) == 0;
  return op == ScalarOp::kOr && element.dtype() == DType::kBool && element.at_int(0) == 1;
}

/// The reciprocal of a power of two whose own reciprocal is a normal number of the type: dividing
/// by it and multiplying with its reciprocal round the same real number.
std::optional<double> exact_reciprocal(const HostTensor& element) {
  if (!is_float(element.dtype())) return std::nullopt;
  int exponent = 0;
  const double value = element.at_double(0);
  const int limit = element.dtype() == DType::kF16 ? 13 : 125;
  if (!std::isfinite(value) || std::fabs(std::frexp(value, &exponent)) != 0.5) return std::nullopt;
  if (exponent > limit || exponent < -limit) return std::nullopt;
  return 1 / value;
}

/// Every value of `from` is one of `to`, which is no float.
bool widens(DType from, DType to) {
  if (from == DType::kBool) return !is_float(to);
  if (!is_integer(from) || !is_integer(to)) return false;
  if (is_signed_integer(from)) return is_signed_integer(to) && byte_size(to) >= byte_size(from);
  return byte_size(to) > byte_size(from) || (to == from);
}

}  // namespace

Simplifier::Rewrite Simplifier::simplify_elementwise(const CandidateNode& c) {
  const ScalarOp op = std::get<ElementwiseAttrs>(c.attrs).op;
  switch (op) {
    case ScalarOp::kSelect:
      return simplify_select(c);
    case ScalarOp::kConvert:
    case ScalarOp::kBitcast:
      return simplify_convert(c);
    default:
      return c.operands.size() == 1 ? simplify_unary(op, c) : simplify_binary(op, c);
  }
}

Simplifier::Rewrite Simplifier::simplify_unary(ScalarOp op, const CandidateNode& c) {
  const Node* inner = rebuild_.made_by(c.operands[0], GraphOp::kElementwise);
  if (inner == nullptr) return std::nullopt;
  const ScalarOp inner_op = std::get<ElementwiseAttrs>(inner->attrs).op;
  const ValueId x = c.operands[0];
  const auto apply = [&](ScalarOp scalar, std::vector<ValueId> operands) {
    return make(
        {GraphOp::kElementwise, ElementwiseAttrs{scalar}, std::move(operands), c.type, c.origin});
  };
  if (op == inner_op && (op == ScalarOp::kNeg || op == ScalarOp::kNot)) return inner->operands[0];
  if (op == ScalarOp::kAbs && inner_op == ScalarOp::kAbs) return x;
  if (op == ScalarOp::kAbs && inner_op == ScalarOp::kNeg) return apply(op, {inner->operands[0]});
  if (is_rounding(op) && is_rounding(inner_op)) return x;
  if (op == ScalarOp::kNot && c.type.dtype == DType::kBool) {
    if (inner_op == ScalarOp::kEq) return apply(ScalarOp::kNe, inner->operands);
    if (inner_op == ScalarOp::kNe) return apply(ScalarOp::kEq, inner->operands);
  }
  return std::nullopt;
}

Simplifier::Rewrite Simplifier::simplify_binary(ScalarOp op, const CandidateNode& c) {
  const ValueId a = c.operands[0];
  const ValueId b = c.operands[1];
  if (a == b && is_idempotent(op)) return a;
  if (const auto element = rebuild_.uniform_element(b)) {
    if (const Rewrite value = simplify_by_constant(op, a, *element, c)) return value;
    if (is_absorbing(op, *element)) return b;
  }
  if (!is_commutative(op)) return std::nullopt;
  if (const auto element = rebuild_.uniform_element(a)) {
    if (is_neutral(op, *element)) return b;
    if (is_absorbing(op, *element)) return a;
  }
  return std::nullopt;
}

Simplifier::Rewrite Simplifier::simplify_by_constant(ScalarOp op, ValueId x,
                                                     const HostTensor& element,
                                                     const CandidateNode& c) {
  if (is_neutral(op, element)) return x;
  const auto multiply = [&](ValueId by) {
    return make(
        {GraphOp::kElementwise, ElementwiseAttrs{ScalarOp::kMul}, {x, by}, c.type, c.origin});
  };
  // float64's pow need not round as the product does; the narrower types' results are those of
  // double, rounded once.
  if (op == ScalarOp::kPow && element.at_double(0) == 2 && element.dtype() != DType::kF64) {
    return multiply(x);
  }
  if (op == ScalarOp::kDiv) {
    if (const auto reciprocal = exact_reciprocal(element)) {
      HostTensor factor(element.dtype(), {});
      factor.set_double(0, *reciprocal);
      const ValueId scalar = rebuild_.add_constant(std::move(factor), c.origin);
      return multiply(make({GraphOp::kBroadcast, BroadcastAttrs{}, {scalar}, c.type, c.origin}));
    }
  }
  return std::nullopt;
}

Simplifier::Rewrite Simplifier::simplify_select(const CandidateNode& c) {
  const ValueId condition = c.operands[0];
  const ValueId then = c.operands[1];
  const ValueId otherwise = c.operands[2];
  if (then == otherwise) return then;
  if (const auto element = rebuild_.uniform_element(condition)) {
    return element->at_int(0) != 0 ? then : otherwise;
  }
  if (const Node* inverted = rebuild_.made_by(condition, ScalarOp::kNot)) {
    return make({GraphOp::kElementwise,
                 c.attrs,
                 {inverted->operands[0], otherwise, then},
                 c.type,
                 c.origin});
  }
  if (c.type.dtype != DType::kBool) return std::nullopt;
  const auto if_true = rebuild_.uniform_element(then);
  const auto if_false = rebuild_.uniform_element(otherwise);
  if (!if_true || !if_false) return std::nullopt;
  if (if_true->at_int(0) != 0 && if_false->at_int(0) == 0) return condition;
  return std::nullopt;
}

/// A float before it was clamped to what conversion to the integer clamps it to, which makes 0 of
/// NaN either way.
ValueId Simplifier::without_clamp(ValueId x, DType to) {
  if (!is_float(type(x).dtype)) return x;
  const int bits = static_cast<int>(8 * byte_size(to));
  const bool has_sign = is_signed_integer(to);
  const double top = std::ldexp(1.0, has_sign ? bits - 1 : bits) - 1;
  const double bottom = has_sign ? -std::ldexp(1.0, bits - 1) : 0;
  while (const Node* inner = rebuild_.made_by(x, GraphOp::kElementwise)) {
    const ScalarOp op = std::get<ElementwiseAttrs>(inner->attrs).op;
    if (op != ScalarOp::kMin && op != ScalarOp::kMax) return x;
    const auto bound = rebuild_.uniform_element(inner->operands[1]);
    if (!bound) return x;
    const double limit = bound->at_double(0);
    if (!(op == ScalarOp::kMin ? limit >= top : limit <= bottom)) return x;
    x = inner->operands[0];
  }
  return x;
}

Simplifier::Rewrite Simplifier::simplify_convert(const CandidateNode& c) {
  const ValueId x = c.operands[0];
  if (type(x) == c.type) return x;
  const ScalarOp op = std::get<ElementwiseAttrs>(c.attrs).op;
  if (op == ScalarOp::kConvert && is_integer(c.type.dtype)) {
    const ValueId whole = without_clamp(x, c.type.dtype);
    if (whole != x) return make({GraphOp::kElementwise, c.attrs, {whole}, c.type, c.origin});
  }
  const Node* inner = rebuild_.made_by(x, op);
  if (inner == nullptr) return std::nullopt;
  const ValueId source = inner->operands[0];
  if (op == ScalarOp::kConvert && !widens(type(source).dtype, type(x).dtype)) return std::nullopt;
  return make({GraphOp::kElementwise, c.attrs, {source}, c.type, c.origin});
}

}  // namespace weft

#include <cmath>
#include <limits>

#include "import/builder/power.h"
#include "import/onnx/graph_importer.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

template <ScalarOp kOp>
void translate_unary(OpContext& n) {
  n.set_output(0, n.b.unary(kOp, n.input(0)));
}

template <ScalarOp kOp>
void translate_binary(OpContext& n) {
  n.set_output(0, n.b.binary(kOp, n.input(0), n.input(1)));
}

/// Any number of operands, joined from the left.
template <ScalarOp kOp>
ValueId join_inputs(OpContext& n) {
  ValueId joined = n.input(0);
  for (int i = 1; i < n.input_count(); ++i) joined = n.b.binary(kOp, joined, n.input(i));
  return joined;
}

template <ScalarOp kOp>
void translate_variadic(OpContext& n) {
  n.set_output(0, join_inputs<kOp>(n));
}

void translate_mean(OpContext& n) {
  n.set_output(0, n.b.div(join_inputs<ScalarOp::kAdd>(n), static_cast<double>(n.input_count())));
}

void translate_reciprocal(OpContext& n) {
  const ValueId x = n.input(0);
  n.set_output(0, n.b.div(n.b.scalar(n.b.dtype(x), 1), x));
}

void translate_relu(OpContext& n) { n.set_output(0, n.b.max(n.input(0), 0.0)); }

void translate_identity(OpContext& n) {
  n.require(n.has_input(0), "input 0 is missing");
  n.set_output(0, n.any_input(0));
}

/// An integer to a float power: exact where the power is whole, truncated elsewhere.
ValueId power_of_integer(GraphBuilder& b, ValueId base, ValueId exponent) {
  // Of a larger one, only -1, 0 and 1 have powers that fit, and those are exact in float64.
  constexpr double kMaxWhole = 64;
  const DType type = b.dtype(base);
  const ValueId real = b.convert(exponent, DType::kF64);
  const ValueId whole = b.binary(
      ScalarOp::kAnd, b.binary(ScalarOp::kEq, real, b.unary(ScalarOp::kTrunc, real)),
      b.binary(ScalarOp::kLe, b.unary(ScalarOp::kAbs, real), b.scalar(DType::kF64, kMaxWhole)));
  const ValueId exact = b.binary(ScalarOp::kPow, base, b.convert(exponent, type));
  const ValueId near = b.binary(ScalarOp::kPow, b.convert(base, DType::kF64), real);
  return b.select(whole, exact, b.convert(near, type));
}

/// The result has the base's type, whatever the exponent's.
void translate_pow(OpContext& n) {
  const ValueId base = n.input(0), exponent = n.input(1);
  const DType type = n.b.dtype(base);
  if (!is_float(type) && is_float(n.b.dtype(exponent))) {
    n.set_output(0, power_of_integer(n.b, base, exponent));
    return;
  }
  n.set_output(0, power(n.b, base, n.b.convert(exponent, type)));
}

/// fmod = 0 is Python's %: the sign of the divisor.
void translate_mod(OpContext& n) {
  const ValueId a = n.input(0), divisor = n.input(1);
  const ValueId remainder = n.b.binary(ScalarOp::kRem, a, divisor);
  const DType type = n.b.dtype(a);
  const bool has_sign = is_float(type) || is_signed_integer(type);
  if (n.bool_attr("fmod", false) || !has_sign) return n.set_output(0, remainder);
  const ValueId zero = n.b.scalar(type, 0);
  const ValueId signs_differ =
      n.b.binary(ScalarOp::kXor, n.b.binary(ScalarOp::kLt, remainder, zero),
                 n.b.binary(ScalarOp::kLt, divisor, zero));
  const ValueId moves =
      n.b.binary(ScalarOp::kAnd, signs_differ, n.b.binary(ScalarOp::kNe, remainder, zero));
  n.set_output(0, n.b.select(moves, n.b.add(remainder, divisor), remainder));
}

/// Shifting a signed number right by too much, or by a negative amount, leaves only its sign.
void translate_bit_shift(OpContext& n) {
  const std::string direction = n.string_attr("direction");
  if (direction == "LEFT") return translate_binary<ScalarOp::kShl>(n);
  n.require(direction == "RIGHT", "direction must be LEFT or RIGHT");
  const ValueId x = n.input(0);
  ValueId amount = n.input(1);
  const DType type = n.b.dtype(amount);
  if (is_signed_integer(type)) {
    const auto most = static_cast<double>(8 * byte_size(type) - 1);
    const ValueId is_negative = n.b.binary(ScalarOp::kLt, amount, n.b.scalar_int(type, 0));
    amount = n.b.select(is_negative, n.b.scalar(type, most), n.b.min(amount, most));
  }
  n.set_output(0, n.b.binary(ScalarOp::kShr, x, amount));
}

/// Of a float of 8 bits the byte that it lies in is cast.
void translate_bit_cast(OpContext& n) {
  const auto from = narrow_input(n, 0), to = narrow_attr(n, "to");
  if ((from && from->bits < 8) || (to && to->bits < 8)) n.unsupported("bits of packed numbers");
  n.set_output(0, n.b.bitcast(n.input(0), n.dtype_attr("to")));
  if (to) n.importer().set_narrow_output(0, *to);
}

/// Input 0 as one of `type`, or of at most 8 bits where that is `narrow`.
void set_cast(OpContext& n, DType type, std::optional<NarrowType> narrow) {
  const ValueId x = as_number(n, 0);
  if (!narrow) return n.set_output(0, n.b.convert(x, type));
  n.set_output(0, narrow->as_float == nullptr
                      ? wrapped(n.b, x, *narrow)
                      : encode_small_float(n.b, x, *narrow->as_float, small_float_rounding(n)));
  n.importer().set_narrow_output(0, *narrow);
}
void translate_cast(OpContext& n) { set_cast(n, n.dtype_attr("to"), narrow_attr(n, "to")); }
void translate_cast_like(OpContext& n) { set_cast(n, n.b.dtype(n.input(1)), narrow_input(n, 1)); }

void translate_where(OpContext& n) {
  n.set_output(0, n.b.select(n.input(0), n.input(1), n.input(2)));
}

/// Bounds as attributes.
void translate_clip_6(OpContext& n) {
  ValueId x = n.input(0);
  if (n.has_attr("min")) x = n.b.max(x, static_cast<double>(n.float_attr("min")));
  if (n.has_attr("max")) x = n.b.min(x, static_cast<double>(n.float_attr("max")));
  n.set_output(0, x);
}

/// Bounds as optional scalar inputs.
void translate_clip_11(OpContext& n) {
  ValueId x = n.input(0);
  if (n.has_input(1)) x = n.b.max(x, n.b.reshape(n.input(1), {}));
  if (n.has_input(2)) x = n.b.min(x, n.b.reshape(n.input(2), {}));
  n.set_output(0, x);
}

void translate_is_inf(OpContext& n) {
  const bool negative = n.bool_attr("detect_negative", true);
  const bool positive = n.bool_attr("detect_positive", true);
  const ValueId x = n.input(0);
  const double infinity = std::numeric_limits<double>::infinity();
  if (negative && positive) return n.set_output(0, n.b.unary(ScalarOp::kIsInf, x));
  if (!negative && !positive) {
    return n.set_output(0, n.b.full(DType::kBool, n.b.shape(x), 0));
  }
  n.set_output(0, n.b.binary(ScalarOp::kEq, x, positive ? infinity : -infinity));
}

const Translator kRows[] = {
    {"", "Abs", 1, translate_unary<ScalarOp::kAbs>},
    {"", "Acos", 1, translate_unary<ScalarOp::kAcos>},
    {"", "Acosh", 1, translate_unary<ScalarOp::kAcosh>},
    {"", "Add", 1, translate_binary<ScalarOp::kAdd>},
    {"", "And", 1, translate_binary<ScalarOp::kAnd>},
    {"", "Asin", 1, translate_unary<ScalarOp::kAsin>},
    {"", "Asinh", 1, translate_unary<ScalarOp::kAsinh>},
    {"", "Atan", 1, translate_unary<ScalarOp::kAtan>},
    {"", "Atanh", 1, translate_unary<ScalarOp::kAtanh>},
    {"", "BitCast", 1, translate_bit_cast},
    {"", "BitShift", 1, translate_bit_shift},
    {"", "BitwiseAnd", 1, translate_binary<ScalarOp::kAnd>},
    {"", "BitwiseNot", 1, translate_unary<ScalarOp::kNot>},
    {"", "BitwiseOr", 1, translate_binary<ScalarOp::kOr>},
    {"", "BitwiseXor", 1, translate_binary<ScalarOp::kXor>},
    {"", "Cast", 1, translate_cast},
    {"", "CastLike", 1, translate_cast_like},
    {"", "Ceil", 1, translate_unary<ScalarOp::kCeil>},
    {"", "Clip", 1, translate_clip_6},
    {"", "Clip", 11, translate_clip_11},
    {"", "Cos", 1, translate_unary<ScalarOp::kCos>},
    {"", "Cosh", 1, translate_unary<ScalarOp::kCosh>},
    {"", "Div", 1, translate_binary<ScalarOp::kDiv>},
    {"", "Equal", 1, translate_binary<ScalarOp::kEq>},
    {"", "Erf", 1, translate_unary<ScalarOp::kErf>},
    {"", "Exp", 1, translate_unary<ScalarOp::kExp>},
    {"", "Floor", 1, translate_unary<ScalarOp::kFloor>},
    {"", "Greater", 1, translate_binary<ScalarOp::kGt>},
    {"", "GreaterOrEqual", 1, translate_binary<ScalarOp::kGe>},
    {"", "Identity", 1, translate_identity},
    {"", "IsInf", 1, translate_is_inf},
    {"", "IsNaN", 1, translate_unary<ScalarOp::kIsNan>},
    {"", "Less", 1, translate_binary<ScalarOp::kLt>},
    {"", "LessOrEqual", 1, translate_binary<ScalarOp::kLe>},
    {"", "Log", 1, translate_unary<ScalarOp::kLog>},
    {"", "Max", 1, translate_variadic<ScalarOp::kMax>},
    {"", "Mean", 1, translate_mean},
    {"", "Min", 1, translate_variadic<ScalarOp::kMin>},
    {"", "Mod", 1, translate_mod},
    {"", "Mul", 1, translate_binary<ScalarOp::kMul>},
    {"", "Neg", 1, translate_unary<ScalarOp::kNeg>},
    {"", "Not", 1, translate_unary<ScalarOp::kNot>},
    {"", "OptionalGetElement", 15, translate_identity},
    {"", "Or", 1, translate_binary<ScalarOp::kOr>},
    {"", "Pow", 1, translate_pow},
    {"", "Reciprocal", 1, translate_reciprocal},
    {"", "Relu", 1, translate_relu},
    {"", "Round", 1, translate_unary<ScalarOp::kRoundEven>},
    {"", "Sigmoid", 1, translate_unary<ScalarOp::kSigmoid>},
    {"", "Sign", 1, translate_unary<ScalarOp::kSign>},
    {"", "Sin", 1, translate_unary<ScalarOp::kSin>},
    {"", "Sinh", 1, translate_unary<ScalarOp::kSinh>},
    {"", "Sqrt", 1, translate_unary<ScalarOp::kSqrt>},
    {"", "Sub", 1, translate_binary<ScalarOp::kSub>},
    {"", "Sum", 1, translate_variadic<ScalarOp::kAdd>},
    {"", "Tan", 1, translate_unary<ScalarOp::kTan>},
    {"", "Tanh", 1, translate_unary<ScalarOp::kTanh>},
    {"", "Where", 1, translate_where},
    {"", "Xor", 1, translate_binary<ScalarOp::kXor>},
};

}  // namespace

TranslatorTable elementwise_translators() { return kRows; }

}  // namespace weft::onnx

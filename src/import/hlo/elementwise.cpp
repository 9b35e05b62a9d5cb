#include <fmt/format.h>

#include <limits>

#include "import/builder/power.h"
#include "import/hlo/total_order.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

template <ScalarOp kOp>
void translate_unary(InstructionContext& n) {
  n.expect_operands(1);
  n.set_result(n.b.unary(kOp, n.operand(0)));
}

template <ScalarOp kOp>
void translate_binary(InstructionContext& n) {
  n.expect_operands(2);
  n.set_result(n.b.binary(kOp, n.operand(0), n.operand(1)));
}

void translate_power(InstructionContext& n) {
  n.expect_operands(2);
  n.set_result(onnx::power(n.b, n.operand(0), n.operand(1)));
}

/// Arithmetic of which a logical operation is the form on truth values.
template <ScalarOp kOp, ScalarOp kLogical>
void translate_arithmetic(InstructionContext& n) {
  n.expect_operands(2);
  const ValueId a = n.operand(0);
  const ScalarOp op = n.b.dtype(a) == DType::kBool ? kLogical : kOp;
  n.set_result(n.b.binary(op, a, n.operand(1)));
}

void translate_abs(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId x = n.operand(0);
  const bool unsigned_integer = is_integer(n.b.dtype(x)) && !is_signed_integer(n.b.dtype(x));
  n.set_result(unsigned_integer ? x : n.b.unary(ScalarOp::kAbs, x));
}

void translate_cube_root(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId x = n.operand(0);
  const ValueId root = n.b.binary(ScalarOp::kPow, n.b.unary(ScalarOp::kAbs, x), 1.0 / 3.0);
  n.set_result(n.b.mul(n.b.unary(ScalarOp::kSign, x), root));
}

/// To the nearest integer, halves away from zero.
void translate_round_away(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId x = n.operand(0);
  const ValueId whole = n.b.unary(ScalarOp::kTrunc, x);
  const ValueId rest = n.b.unary(ScalarOp::kAbs, n.b.sub(x, whole));
  const ValueId away = n.b.add(whole, n.b.unary(ScalarOp::kSign, x));
  n.set_result(n.b.select(n.b.binary(ScalarOp::kGe, rest, 0.5), away, whole));
}

void translate_is_finite(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId magnitude = n.b.unary(ScalarOp::kAbs, n.operand(0));
  n.set_result(n.b.binary(ScalarOp::kLt, magnitude, std::numeric_limits<double>::infinity()));
}

ScalarOp comparison_of(std::string_view direction) {
  if (direction == "EQ") return ScalarOp::kEq;
  if (direction == "NE") return ScalarOp::kNe;
  if (direction == "LT") return ScalarOp::kLt;
  if (direction == "LE") return ScalarOp::kLe;
  if (direction == "GT") return ScalarOp::kGt;
  if (direction == "GE") return ScalarOp::kGe;
  refuse_invalid(fmt::format("there is no direction '{}'", direction));
}

void translate_compare(InstructionContext& n) {
  n.expect_operands(2);
  const ScalarOp op = comparison_of(n.word("direction"));
  ValueId a = n.operand(0), c = n.operand(1);
  if (n.word("type", "") == "TOTALORDER" && is_float(n.b.dtype(a))) {
    a = total_order_key(n.b, a);
    c = total_order_key(n.b, c);
  }
  n.set_result(n.b.binary(op, a, c));
}

void translate_select(InstructionContext& n) {
  n.expect_operands(3);
  n.set_result(n.b.select(n.operand(0), n.operand(1), n.operand(2)));
}

void translate_clamp(InstructionContext& n) {
  n.expect_operands(3);
  const ValueId low = n.operand(0), x = n.operand(1), high = n.operand(2);
  n.set_result(n.b.min(n.b.max(x, low), high));
}

void translate_convert(InstructionContext& n) {
  n.expect_operands(1);
  n.set_result(n.b.convert(n.operand(0), n.dtype()));
}

/// Rounds to fewer bits: those of a type that weft has.
void translate_reduce_precision(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId x = n.operand(0);
  const int64_t exponent = n.integer("exponent_bits"), mantissa = n.integer("mantissa_bits");
  const DType type = n.b.dtype(x);
  if (exponent == 8 && mantissa == 7) {
    n.set_result(n.b.convert(n.b.convert(x, DType::kBF16), type));
  } else if (exponent == 5 && mantissa == 10) {
    n.set_result(n.b.convert(n.b.convert(x, DType::kF16), type));
  } else if (exponent == 8 && mantissa == 23) {
    n.set_result(n.b.convert(n.b.convert(x, DType::kF32), type));
  } else {
    refuse_unsupported(
        fmt::format("rounding to {} bits of exponent and {} of mantissa "
                    "(those of f16, bf16 and f32 are supported)",
                    exponent, mantissa));
  }
}

void translate_real(InstructionContext& n) {
  n.expect_operands(1);
  n.set_result(n.operand(0));
}

void translate_imag(InstructionContext& n) {
  n.expect_operands(1);
  n.set_result(n.b.full_like(n.operand(0), 0));
}

/// Both parts of a complex number.
void translate_pair(InstructionContext& n) {
  n.expect_operands(2);
  n.set_results({n.operand(0), n.operand(1)});
}

const Translator kRows[] = {
    {"complex", translate_pair, true},
    {"abs", translate_abs, true},
    {"negate", translate_unary<ScalarOp::kNeg>, true},
    {"sign", translate_unary<ScalarOp::kSign>, true},
    {"exponential", translate_unary<ScalarOp::kExp>, true},
    {"exponential-minus-one", translate_unary<ScalarOp::kExpm1>, true},
    {"log", translate_unary<ScalarOp::kLog>, true},
    {"log-plus-one", translate_unary<ScalarOp::kLog1p>, true},
    {"sqrt", translate_unary<ScalarOp::kSqrt>, true},
    {"rsqrt", translate_unary<ScalarOp::kRsqrt>, true},
    {"cbrt", translate_cube_root, true},
    {"sine", translate_unary<ScalarOp::kSin>, true},
    {"cosine", translate_unary<ScalarOp::kCos>, true},
    {"tan", translate_unary<ScalarOp::kTan>, true},
    {"asin", translate_unary<ScalarOp::kAsin>, true},
    {"acos", translate_unary<ScalarOp::kAcos>, true},
    {"atan", translate_unary<ScalarOp::kAtan>, true},
    {"sinh", translate_unary<ScalarOp::kSinh>, true},
    {"cosh", translate_unary<ScalarOp::kCosh>, true},
    {"tanh", translate_unary<ScalarOp::kTanh>, true},
    {"asinh", translate_unary<ScalarOp::kAsinh>, true},
    {"acosh", translate_unary<ScalarOp::kAcosh>, true},
    {"atanh", translate_unary<ScalarOp::kAtanh>, true},
    {"logistic", translate_unary<ScalarOp::kSigmoid>, true},
    {"erf", translate_unary<ScalarOp::kErf>, true},
    {"floor", translate_unary<ScalarOp::kFloor>, true},
    {"ceil", translate_unary<ScalarOp::kCeil>, true},
    {"round-nearest-even", translate_unary<ScalarOp::kRoundEven>, true},
    {"round-nearest-afz", translate_round_away, true},
    {"is-finite", translate_is_finite, true},
    {"real", translate_real, true},
    {"imag", translate_imag, true},
    {"add", translate_arithmetic<ScalarOp::kAdd, ScalarOp::kOr>, true},
    {"subtract", translate_arithmetic<ScalarOp::kSub, ScalarOp::kXor>, true},
    {"multiply", translate_arithmetic<ScalarOp::kMul, ScalarOp::kAnd>, true},
    {"divide", translate_binary<ScalarOp::kDiv>, true},
    {"remainder", translate_binary<ScalarOp::kRem>, true},
    {"power", translate_power, true},
    {"maximum", translate_arithmetic<ScalarOp::kMax, ScalarOp::kOr>, true},
    {"minimum", translate_arithmetic<ScalarOp::kMin, ScalarOp::kAnd>, true},
    {"atan2", translate_binary<ScalarOp::kAtan2>, true},
    {"compare", translate_compare, true},
    {"select", translate_select, true},
    {"clamp", translate_clamp, true},
    {"convert", translate_convert, true},
    {"reduce-precision", translate_reduce_precision, true},
};

}  // namespace

TranslatorTable elementwise_translators() { return kRows; }

}  // namespace weft::hlo

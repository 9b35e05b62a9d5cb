#include "codegen/cuda/scalar_text.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "support/check.h"

namespace weft {
namespace {

bool is_half(DType type) { return type == DType::kF16 || type == DType::kBF16; }

std::string to_float(const std::string& value, DType from) {
  return is_half(from) ? fmt::format("wf_to_float({})", value) : value;
}

std::string from_float(const std::string& value, DType to) {
  if (to == DType::kF16) return fmt::format("wf_to_f16({})", value);
  if (to == DType::kBF16) return fmt::format("wf_to_bf16({})", value);
  return value;
}

/// Arithmetic wraps: it is done unsigned, in at least 32 bits.
std::string_view wrapping_name(DType type) { return byte_size(type) == 8 ? "u64" : "u32"; }

std::string_view infix(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
      return "+";
    case ScalarOp::kSub:
      return "-";
    case ScalarOp::kMul:
      return "*";
    case ScalarOp::kDiv:
      return "/";
    case ScalarOp::kAnd:
      return "&";
    case ScalarOp::kOr:
      return "|";
    case ScalarOp::kXor:
      return "^";
    case ScalarOp::kEq:
      return "==";
    case ScalarOp::kNe:
      return "!=";
    case ScalarOp::kLt:
      return "<";
    case ScalarOp::kLe:
      return "<=";
    case ScalarOp::kGt:
      return ">";
    case ScalarOp::kGe:
      return ">=";
    default:
      return {};
  }
}

/// The function of C's mathematics library, without the f of its float form.
std::string_view math_name(ScalarOp op) {
  switch (op) {
    case ScalarOp::kExp:
      return "exp";
    case ScalarOp::kLog:
      return "log";
    case ScalarOp::kExpm1:
      return "expm1";
    case ScalarOp::kLog1p:
      return "log1p";
    case ScalarOp::kSqrt:
      return "sqrt";
    case ScalarOp::kSin:
      return "sin";
    case ScalarOp::kCos:
      return "cos";
    case ScalarOp::kTan:
      return "tan";
    case ScalarOp::kAsin:
      return "asin";
    case ScalarOp::kAcos:
      return "acos";
    case ScalarOp::kAtan:
      return "atan";
    case ScalarOp::kSinh:
      return "sinh";
    case ScalarOp::kCosh:
      return "cosh";
    case ScalarOp::kTanh:
      return "tanh";
    case ScalarOp::kAsinh:
      return "asinh";
    case ScalarOp::kAcosh:
      return "acosh";
    case ScalarOp::kAtanh:
      return "atanh";
    case ScalarOp::kErf:
      return "erf";
    case ScalarOp::kFloor:
      return "floor";
    case ScalarOp::kCeil:
      return "ceil";
    case ScalarOp::kRoundEven:
      return "rint";
    case ScalarOp::kTrunc:
      return "trunc";
    case ScalarOp::kAbs:
      return "fabs";
    case ScalarOp::kPow:
      return "pow";
    case ScalarOp::kRem:
      return "fmod";
    case ScalarOp::kAtan2:
      return "atan2";
    default:
      return {};
  }
}

/// On float or double operands.
std::string float_text(ScalarOp op, const std::vector<std::string>& x, bool is_double) {
  if (const std::string_view sign = infix(op); !sign.empty()) {
    return fmt::format("{} {} {}", x[0], sign, x[1]);
  }
  if (const std::string_view name = math_name(op); !name.empty()) {
    return fmt::format("{}{}({})", name, is_double ? "" : "f", fmt::join(x, ", "));
  }
  switch (op) {
    case ScalarOp::kNeg:
      return fmt::format("-({})", x[0]);
    case ScalarOp::kSign:
      return fmt::format("sc_sign({})", x[0]);
    case ScalarOp::kRsqrt:
      return fmt::format("wf_rsqrt({})", x[0]);
    case ScalarOp::kSigmoid:
      return fmt::format("sc_sigmoid({})", x[0]);
    case ScalarOp::kIsNan:
      return fmt::format("{} != {}", x[0], x[0]);
    case ScalarOp::kIsInf:
      return is_double ? fmt::format("fabs({}) == wf_double(0x7ff0000000000000ull)", x[0])
                       : fmt::format("fabsf({}) == wf_inf()", x[0]);
    case ScalarOp::kMin:
      return fmt::format("sc_min({}, {})", x[0], x[1]);
    case ScalarOp::kMax:
      return fmt::format("sc_max({}, {})", x[0], x[1]);
    default:
      throw_internal_error(__FILE__, __LINE__, "scalar operation",
                           std::string(scalar_op_name(op)) + " on floats");
  }
}

std::string bool_text(ScalarOp op, const std::vector<std::string>& x) {
  switch (op) {
    case ScalarOp::kNot:
      return "!" + x[0];
    case ScalarOp::kMin:
    case ScalarOp::kAnd:
      return fmt::format("{} && {}", x[0], x[1]);
    case ScalarOp::kMax:
    case ScalarOp::kOr:
      return fmt::format("{} || {}", x[0], x[1]);
    case ScalarOp::kXor:
      return fmt::format("{} != {}", x[0], x[1]);
    default:
      return fmt::format("{} {} {}", x[0], infix(op), x[1]);
  }
}

std::string integer_text(ScalarOp op, const std::vector<std::string>& x, DType type) {
  const std::string_view name = cuda_type_name(type), wide = wrapping_name(type);
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
      return fmt::format("({})(({}){} {} ({}){})", name, wide, x[0], infix(op), wide, x[1]);
    case ScalarOp::kNeg:
      return fmt::format("({})(0 - ({}){})", name, wide, x[0]);
    case ScalarOp::kAbs:
      return fmt::format("{0} < ({1})0 ? ({1})(0 - ({2}){0}) : {0}", x[0], name, wide);
    case ScalarOp::kSign:
      return fmt::format("sc_sign<{}>({})", name, x[0]);
    case ScalarOp::kNot:
      return fmt::format("({})~{}", name, x[0]);
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
      return fmt::format("({})({} {} {})", name, x[0], infix(op), x[1]);
    case ScalarOp::kMin:
      return fmt::format("{1} < {0} ? {1} : {0}", x[0], x[1]);
    case ScalarOp::kMax:
      return fmt::format("{0} < {1} ? {1} : {0}", x[0], x[1]);
    case ScalarOp::kDiv:
    case ScalarOp::kRem:
    case ScalarOp::kPow:
    case ScalarOp::kShl:
    case ScalarOp::kShr:
      return fmt::format("sc_{}<{}>({}, {})", scalar_op_name(op), name, x[0], x[1]);
    case ScalarOp::kThreefry:
      return fmt::format("sc_threefry({}, {})", x[0], x[1]);
    default:
      return fmt::format("{} {} {}", x[0], infix(op), x[1]);
  }
}

/// 2^bits and its negative bound the values that an integer type holds.
std::string saturated(const std::string& value, DType from, DType to) {
  const int bits = static_cast<int>(byte_size(to)) * 8 - (is_signed_integer(to) ? 1 : 0);
  const double above = std::ldexp(1.0, bits);
  const double below = is_signed_integer(to) ? -above : 0;
  const bool is_double = from == DType::kF64;
  const std::string_view float_name = is_double ? "double" : "float", name = cuda_type_name(to);
  const std::string highest =
      bits == 64 ? "0xffffffffffffffffull" : fmt::format("{}ull", (uint64_t{1} << bits) - 1);
  const std::string lowest = is_signed_integer(to) ? fmt::format("({})(1ull << {})", name, bits)
                                                   : fmt::format("({})0", name);
  return fmt::format("sc_to_integer<{0}, {1}>({2}, ({1}){3:.1f}, ({1}){4:.1f}, {5}, ({0}){6})",
                     name, float_name, value, below, above, lowest, highest);
}

std::string convert_text(const std::string& value, DType from, DType to) {
  if (from == to) return value;
  const std::string x = to_float(value, from);
  if (to == DType::kBool) {
    return is_float(from) ? fmt::format("{} != 0.0f", x) : fmt::format("{} != 0", x);
  }
  if (is_float(to)) {
    if (is_half(to)) return from_float(fmt::format("(float){}", x), to);
    return fmt::format("({}){}", cuda_type_name(to), x);
  }
  if (is_float(from)) return saturated(x, from, to);
  return fmt::format("({}){}", cuda_type_name(to), x);
}

/// Between types of one width.
std::string bitcast_text(const std::string& value, DType from, DType to) {
  if (is_float(from) == is_float(to) && from != to && !is_float(from)) {
    return fmt::format("({}){}", cuda_type_name(to), value);
  }
  if (from == to) return value;
  std::string bits = value;
  if (is_half(from)) bits = value + ".x";
  if (from == DType::kF32 || from == DType::kF64) bits = fmt::format("wf_bits({})", value);
  if (to == DType::kF32) return fmt::format("wf_float((u32){})", bits);
  if (to == DType::kF64) return fmt::format("wf_double((u64){})", bits);
  if (is_half(to)) return fmt::format("{}{{(u16){}}}", cuda_type_name(to), bits);
  return fmt::format("({}){}", cuda_type_name(to), bits);
}

}  // namespace

std::string_view cuda_type_name(DType type) {
  switch (type) {
    case DType::kBool:
      return "bool";
    case DType::kI8:
      return "s8";
    case DType::kI16:
      return "s16";
    case DType::kI32:
      return "s32";
    case DType::kI64:
      return "s64";
    case DType::kU8:
      return "u8";
    case DType::kU16:
      return "u16";
    case DType::kU32:
      return "u32";
    case DType::kU64:
      return "u64";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
  }
  return "";
}

std::string_view cuda_storage_name(DType type) {
  return type == DType::kBool ? "u8" : cuda_type_name(type);
}

std::string cuda_from_storage(DType type, const std::string& stored) {
  return type == DType::kBool ? fmt::format("{} != 0", stored) : stored;
}

std::string cuda_to_storage(DType type, const std::string& value) {
  return type == DType::kBool ? fmt::format("(u8)({} ? 1 : 0)", value) : value;
}

std::string cuda_literal(const ScalarValue& value) {
  switch (value.type) {
    case DType::kBool:
      return value.i != 0 ? "true" : "false";
    case DType::kF32: {
      const auto f = static_cast<float>(value.f);
      if (std::isnan(f)) return "wf_nan()";
      if (std::isinf(f)) return f < 0 ? "-wf_inf()" : "wf_inf()";
      std::string text = fmt::format("{}", f);
      if (text.find_first_of(".e") == std::string::npos) text += ".0";
      return text + "f";
    }
    case DType::kF64: {
      if (std::isnan(value.f)) return "wf_double(0x7ff8000000000000ull)";
      if (std::isinf(value.f)) {
        return fmt::format("{}wf_double(0x7ff0000000000000ull)", value.f < 0 ? "-" : "");
      }
      std::string text = fmt::format("{}", value.f);
      if (text.find_first_of(".e") == std::string::npos) text += ".0";
      return text;
    }
    case DType::kF16:
      return fmt::format("f16{{{}}}", float_to_half(static_cast<float>(value.f)));
    case DType::kBF16:
      return fmt::format("bf16{{{}}}", float_to_bfloat16(static_cast<float>(value.f)));
    case DType::kI64:
      if (value.i == std::numeric_limits<int64_t>::min()) return "(s64)(1ull << 63)";
      return fmt::format("{}ll", value.i);
    case DType::kU64:
      return fmt::format("{}ull", static_cast<uint64_t>(value.i));
    case DType::kU32:
      return fmt::format("{}u", static_cast<uint32_t>(value.i));
    case DType::kI32:
      if (value.i == std::numeric_limits<int32_t>::min()) return "(s32)(1u << 31)";
      return fmt::format("{}", value.i);
    default:
      return fmt::format("({}){}", cuda_type_name(value.type), value.i);
  }
}

std::string cuda_scalar_text(ScalarOp op, const std::vector<std::string>& operands, DType operand,
                             DType result) {
  switch (op) {
    case ScalarOp::kSelect:
      return fmt::format("{} ? {} : {}", operands[0], operands[1], operands[2]);
    case ScalarOp::kConvert:
      return convert_text(operands[0], operand, result);
    case ScalarOp::kBitcast:
      return bitcast_text(operands[0], operand, result);
    default:
      break;
  }
  if (operand == DType::kBool) return bool_text(op, operands);
  if (!is_float(operand)) return integer_text(op, operands, operand);
  if (!is_half(operand)) return float_text(op, operands, operand == DType::kF64);
  std::vector<std::string> floats;
  for (const std::string& x : operands) floats.push_back(to_float(x, operand));
  const std::string value = float_text(op, floats, false);
  return scalar_op_is_predicate(op) ? value : from_float(value, operand);
}

}  // namespace weft

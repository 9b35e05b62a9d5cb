#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "graph/scalar_op.h"

namespace weft {

/// The reference meaning of the scalar operations on C++ types, shared by evaluate_scalar and by
/// the interpreter's loops. T is the type that arithmetic uses (Storage::Value): bool, an integer,
/// float or double. Elementary functions of float are those of double, rounded once, which makes
/// them correct in all but a handful of cases.

template <typename T>
using WrappingType = std::make_unsigned_t<std::conditional_t<sizeof(T) < 4, int, T>>;

template <typename T>
T wrapping_add(T a, T b) {
  using U = WrappingType<T>;
  return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
}
template <typename T>
T wrapping_sub(T a, T b) {
  using U = WrappingType<T>;
  return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
}
template <typename T>
T wrapping_mul(T a, T b) {
  using U = WrappingType<T>;
  return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
}

template <typename T>
T add_values(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return wrapping_add(a, b);
  }
}
template <typename T>
T mul_values(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * b;
  } else {
    return wrapping_mul(a, b);
  }
}

/// NaN if either is NaN, else the smaller; `a` where they compare equal.
template <typename T>
T min_values(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return b < a ? b : a;
}
template <typename T>
T max_values(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return a < b ? b : a;
}

template <typename T>
T div_integers(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return wrapping_sub(T{0}, a);
  }
  return static_cast<T>(a / b);
}

template <typename T>
T rem_integers(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}

/// By squaring, wrapping; a negative exponent truncates the exact value towards zero (0 to a
/// negative power is 0).
template <typename T>
T pow_integers(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
      return 0;
    }
  }
  T result = 1;
  for (; exponent > 0; exponent = static_cast<T>(exponent / 2)) {
    if (exponent % 2 != 0) result = wrapping_mul(result, base);
    base = wrapping_mul(base, base);
  }
  return result;
}

template <typename T>
constexpr int kBits = static_cast<int>(sizeof(T)) * 8;

template <typename T>
T shift_left(T a, T b) {
  const bool inside = !(b < 0) && static_cast<uint64_t>(b) < static_cast<uint64_t>(kBits<T>);
  if (!inside) return 0;
  return static_cast<T>(static_cast<WrappingType<T>>(a) << static_cast<int>(b));
}
template <typename T>
T shift_right(T a, T b) {
  const bool inside = !(b < 0) && static_cast<uint64_t>(b) < static_cast<uint64_t>(kBits<T>);
  return inside ? static_cast<T>(a >> static_cast<int>(b)) : T{0};
}

inline uint64_t threefry(uint64_t counter, uint64_t key) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const auto low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  const uint32_t schedule[3] = {low, high, low ^ high ^ 0x1BD11BDA};
  uint32_t x0 = static_cast<uint32_t>(counter) + low;
  uint32_t x1 = static_cast<uint32_t>(counter >> 32) + high;
  for (uint32_t i = 0; i < 5; ++i) {
    for (const int distance : kRotations[i % 2]) {
      x0 += x1;
      x1 = std::rotl(x1, distance) ^ x0;
    }
    x0 += schedule[(i + 1) % 3];
    x1 += schedule[(i + 2) % 3] + i + 1;
  }
  return (static_cast<uint64_t>(x1) << 32) | x0;
}

/// To To: floats round; float to integer truncates and saturates with NaN to 0; integers wrap; to
/// bool is x != 0.
template <typename To, typename From>
To convert_scalar(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The limits as floats: 2^(bits-1) is exact, and the truncated value lies inside strictly below
    // it.
    constexpr int kDigits = std::numeric_limits<To>::digits;
    const From above = std::ldexp(From{1}, kDigits);
    if (std::isnan(value)) return 0;
    if (value >= above) return std::numeric_limits<To>::max();
    if constexpr (std::is_signed_v<To>) {
      if (value < -above) return std::numeric_limits<To>::min();
    } else {
      if (value <= From{-1}) return 0;
    }
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

/// Calls body(f) with the operation as T -> T; false when `op` is no such operation or not defined
/// on T.
template <typename T, typename Body>
bool with_unary(ScalarOp op, Body&& body) {
  if constexpr (std::is_same_v<T, bool>) {
    if (op != ScalarOp::kNot) return false;
    body([](bool a) { return !a; });
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case ScalarOp::kNeg:
        return body([](T a) { return wrapping_sub(T{0}, a); }), true;
      case ScalarOp::kAbs:
        return body([](T a) { return a < 0 ? wrapping_sub(T{0}, a) : a; }), true;
      case ScalarOp::kSign:
        return body([](T a) { return static_cast<T>(a > 0 ? 1 : (a < 0 ? -1 : 0)); }), true;
      case ScalarOp::kNot:
        return body([](T a) { return static_cast<T>(~a); }), true;
      default:
        return false;
    }
  } else {
    using D = double;
    switch (op) {
      case ScalarOp::kNeg:
        return body([](T a) { return -a; }), true;
      case ScalarOp::kAbs:
        return body([](T a) { return std::fabs(a); }), true;
      case ScalarOp::kSign:
        return body([](T a) { return a > 0 ? T{1} : (a < 0 ? T{-1} : (a == 0 ? T{0} : a)); }), true;
      case ScalarOp::kExp:
        return body([](T a) { return static_cast<T>(std::exp(D{a})); }), true;
      case ScalarOp::kLog:
        return body([](T a) { return static_cast<T>(std::log(D{a})); }), true;
      case ScalarOp::kExpm1:
        return body([](T a) { return static_cast<T>(std::expm1(D{a})); }), true;
      case ScalarOp::kLog1p:
        return body([](T a) { return static_cast<T>(std::log1p(D{a})); }), true;
      case ScalarOp::kSqrt:
        return body([](T a) { return std::sqrt(a); }), true;
      case ScalarOp::kRsqrt:
        return body([](T a) { return T{1} / std::sqrt(a); }), true;
      case ScalarOp::kSin:
        return body([](T a) { return static_cast<T>(std::sin(D{a})); }), true;
      case ScalarOp::kCos:
        return body([](T a) { return static_cast<T>(std::cos(D{a})); }), true;
      case ScalarOp::kTan:
        return body([](T a) { return static_cast<T>(std::tan(D{a})); }), true;
      case ScalarOp::kAsin:
        return body([](T a) { return static_cast<T>(std::asin(D{a})); }), true;
      case ScalarOp::kAcos:
        return body([](T a) { return static_cast<T>(std::acos(D{a})); }), true;
      case ScalarOp::kAtan:
        return body([](T a) { return static_cast<T>(std::atan(D{a})); }), true;
      case ScalarOp::kSinh:
        return body([](T a) { return static_cast<T>(std::sinh(D{a})); }), true;
      case ScalarOp::kCosh:
        return body([](T a) { return static_cast<T>(std::cosh(D{a})); }), true;
      case ScalarOp::kTanh:
        return body([](T a) { return static_cast<T>(std::tanh(D{a})); }), true;
      case ScalarOp::kAsinh:
        return body([](T a) { return static_cast<T>(std::asinh(D{a})); }), true;
      case ScalarOp::kAcosh:
        return body([](T a) { return static_cast<T>(std::acosh(D{a})); }), true;
      case ScalarOp::kAtanh:
        return body([](T a) { return static_cast<T>(std::atanh(D{a})); }), true;
      case ScalarOp::kSigmoid:
        return body([](T a) { return static_cast<T>(1.0 / (1.0 + std::exp(-D{a}))); }), true;
      case ScalarOp::kErf:
        return body([](T a) { return static_cast<T>(std::erf(D{a})); }), true;
      case ScalarOp::kFloor:
        return body([](T a) { return std::floor(a); }), true;
      case ScalarOp::kCeil:
        return body([](T a) { return std::ceil(a); }), true;
      case ScalarOp::kRoundEven:
        return body([](T a) { return std::nearbyint(a); }), true;
      case ScalarOp::kTrunc:
        return body([](T a) { return std::trunc(a); }), true;
      default:
        return false;
    }
  }
}

/// Calls body(f) with the operation as (T, T) -> T; false when `op` is no such operation or not
/// defined on T.
template <typename T, typename Body>
bool with_binary(ScalarOp op, Body&& body) {
  switch (op) {
    case ScalarOp::kMin:
      return body([](T a, T b) { return min_values(a, b); }), true;
    case ScalarOp::kMax:
      return body([](T a, T b) { return max_values(a, b); }), true;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case ScalarOp::kAnd:
        return body([](T a, T b) { return static_cast<T>(a & b); }), true;
      case ScalarOp::kOr:
        return body([](T a, T b) { return static_cast<T>(a | b); }), true;
      case ScalarOp::kXor:
        return body([](T a, T b) { return static_cast<T>(a ^ b); }), true;
      default:
        break;
    }
  }
  if constexpr (std::is_same_v<T, bool>) {
    return false;
  } else if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case ScalarOp::kAdd:
        return body([](T a, T b) { return wrapping_add(a, b); }), true;
      case ScalarOp::kSub:
        return body([](T a, T b) { return wrapping_sub(a, b); }), true;
      case ScalarOp::kMul:
        return body([](T a, T b) { return wrapping_mul(a, b); }), true;
      case ScalarOp::kDiv:
        return body([](T a, T b) { return div_integers(a, b); }), true;
      case ScalarOp::kRem:
        return body([](T a, T b) { return rem_integers(a, b); }), true;
      case ScalarOp::kPow:
        return body([](T a, T b) { return pow_integers(a, b); }), true;
      case ScalarOp::kShl:
        return body([](T a, T b) { return shift_left(a, b); }), true;
      case ScalarOp::kShr:
        return body([](T a, T b) { return shift_right(a, b); }), true;
      case ScalarOp::kThreefry:
        if constexpr (std::is_same_v<T, uint64_t>) return body(threefry), true;
        return false;
      default:
        return false;
    }
  } else {
    using D = double;
    switch (op) {
      case ScalarOp::kAdd:
        return body([](T a, T b) { return a + b; }), true;
      case ScalarOp::kSub:
        return body([](T a, T b) { return a - b; }), true;
      case ScalarOp::kMul:
        return body([](T a, T b) { return a * b; }), true;
      case ScalarOp::kDiv:
        return body([](T a, T b) { return a / b; }), true;
      case ScalarOp::kRem:
        return body([](T a, T b) { return std::fmod(a, b); }), true;
      case ScalarOp::kPow:
        return body([](T a, T b) { return static_cast<T>(std::pow(D{a}, D{b})); }), true;
      case ScalarOp::kAtan2:
        return body([](T a, T b) { return static_cast<T>(std::atan2(D{a}, D{b})); }), true;
      default:
        return false;
    }
  }
}

/// Calls body(f) with the operation as T -> bool; false when `op` is no such operation or not
/// defined on T.
template <typename T, typename Body>
bool with_predicate(ScalarOp op, Body&& body) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == ScalarOp::kIsNan) return body([](T a) { return std::isnan(a); }), true;
    if (op == ScalarOp::kIsInf) return body([](T a) { return std::isinf(a); }), true;
  }
  return false;
}

/// Calls body(f) with the operation as (T, T) -> bool; false when `op` is no such operation.
template <typename T, typename Body>
bool with_comparison(ScalarOp op, Body&& body) {
  switch (op) {
    case ScalarOp::kEq:
      return body([](T a, T b) { return a == b; }), true;
    case ScalarOp::kNe:
      return body([](T a, T b) { return a != b; }), true;
    case ScalarOp::kLt:
      return body([](T a, T b) { return a < b; }), true;
    case ScalarOp::kLe:
      return body([](T a, T b) { return a <= b; }), true;
    case ScalarOp::kGt:
      return body([](T a, T b) { return a > b; }), true;
    case ScalarOp::kGe:
      return body([](T a, T b) { return a >= b; }), true;
    default:
      return false;
  }
}

}  // namespace weft

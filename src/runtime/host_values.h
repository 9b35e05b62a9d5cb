#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/host_ops.h"
#include "support/storage.h"

namespace weft {

/// HostStep::combiner.
inline constexpr uint8_t kSum = 0, kProd = 1, kMin = 2, kMax = 3, kAnd = 4, kOr = 5;

inline int64_t extent(const HostOperand& x, size_t axis) { return (*x.shape)[axis]; }
inline int64_t count(const HostOperand& x) { return *element_count(*x.shape); }
inline int64_t rank(const HostOperand& x) { return static_cast<int64_t>(x.shape->size()); }

/// A tensor as [outer, extent, inner] around an axis.
struct AxisView {
  int64_t outer = 1, extent = 1, inner = 1;
};

inline AxisView around(const Shape& shape, int64_t axis) {
  AxisView view;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    (at < axis ? view.outer : at == axis ? view.extent : view.inner) *= shape[i];
  }
  return view;
}

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return value != value;
  return false;
}

/// graph/scalar_op.h's combine(): NaN wins in min and max, integers wrap, and/or are bitwise.
template <uint8_t kCombiner, typename T>
T combine_values(T a, T b) {
  constexpr bool kFloat = std::is_floating_point_v<T>;
  if constexpr (kCombiner == kSum) {
    if constexpr (kFloat) return a + b;
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else if constexpr (kCombiner == kProd) {
    if constexpr (kFloat) return a * b;
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else if constexpr (kCombiner == kMin) {
    const T least = b < a ? b : a;  // NaN if a is
    return is_nan(b) ? b : least;
  } else if constexpr (kCombiner == kMax) {
    const T greatest = b > a ? b : a;
    return is_nan(b) ? b : greatest;
  } else if constexpr (kFloat) {
    return kCombiner == kAnd ? T(a != 0 && b != 0) : T(a != 0 || b != 0);
  } else {
    return static_cast<T>(kCombiner == kAnd ? a & b : a | b);
  }
}

/// Calls body with the combiner as a compile-time constant.
template <typename Body>
void with_combiner(uint8_t combiner, Body&& body) {
  switch (combiner) {
    case kSum:
      return body(std::integral_constant<uint8_t, kSum>());
    case kProd:
      return body(std::integral_constant<uint8_t, kProd>());
    case kMin:
      return body(std::integral_constant<uint8_t, kMin>());
    case kMax:
      return body(std::integral_constant<uint8_t, kMax>());
    case kAnd:
      return body(std::integral_constant<uint8_t, kAnd>());
    default:
      return body(std::integral_constant<uint8_t, kOr>());
  }
}

/// Runs body, which has to be inlined here whole, with vectors of 32 bytes where the processor has
/// them. Results are the same.
#define WEFT_INLINED __attribute__((always_inline))
template <typename Body>
__attribute__((target("avx2"))) void run_with_avx2(const Body& body) {
  body();
}
template <typename Body>
void run_with_wide_vectors(const Body& body) {
  static const bool kHasAvx2 = __builtin_cpu_supports("avx2") != 0;
  kHasAvx2 ? run_with_avx2(body) : body();
}

}  // namespace weft

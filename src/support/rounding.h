#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace weft {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The least multiple of `to` that is not below n.
inline int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

/// The least power of two that is not below n, 1 for what is not positive.
inline int64_t power_above(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

}  // namespace weft

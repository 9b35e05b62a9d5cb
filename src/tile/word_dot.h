#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// A CPU's unit: sum[k] i32(A) * i32(B) over two neighbours, A of i16 and B of i8, which is
/// widened.
inline constexpr std::string_view kWordDotUnit = "dot_s16s8";
inline constexpr int64_t kWordDotDepth = 2;

}  // namespace weft

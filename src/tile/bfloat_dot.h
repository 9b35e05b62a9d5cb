#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// A CPU's unit: sum[k] f32(A) * f32(B) over two neighbours of bf16.
inline constexpr std::string_view kBFloatDotUnit = "dot_bf16";
inline constexpr int64_t kBFloatDotDepth = 2;

}  // namespace weft

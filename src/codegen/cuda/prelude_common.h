#pragma once

#include <string_view>

namespace weft {

/// What both forms of the prelude share: types that mean the same to every compiler.
inline constexpr std::string_view kPreludeTypes = R"prelude(#pragma once
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
struct f16 { u16 x; };
struct bf16 { u16 x; };
#define WF_FULL 0xffffffffu
)prelude";

}  // namespace weft

#pragma once

#include <cstdint>

namespace weft {

/// Registers that one axis of a value, or of a carry, takes at most in a CPU's kernel: each of them
/// is written out. A longer axis is walked by a loop.
inline constexpr int64_t kMostRegisters = 256;

}  // namespace weft

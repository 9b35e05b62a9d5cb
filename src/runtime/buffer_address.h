#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "runtime/program.h"

namespace weft {

/// Address of a slice or carry at the current iteration of its loop; its parents' addresses in
/// `table` must be current. A slice stays in its base also before and after its loop, where nothing
/// uses it.
inline void* moving_address(const ProgramBuffer& buffer, std::span<const int64_t> trips,
                            std::span<const int64_t> iterations, std::span<void* const> table) {
  const auto loop = static_cast<size_t>(buffer.loop);
  const int64_t iteration = iterations[loop];
  const auto row = [&](int32_t stack, int64_t number) {
    auto* base = static_cast<std::byte*>(table[static_cast<size_t>(stack)]);
    const int64_t last = std::max<int64_t>(0, trips[loop] - 1);
    const int64_t forward = std::min(number, last);
    return base + (buffer.reverse ? last - forward : forward) * buffer.stride;
  };
  if (buffer.kind == ProgramBuffer::Kind::kSlice) return row(buffer.base, iteration);
  if (buffer.kind == ProgramBuffer::Kind::kStackedCarry)
    return iteration == 0 ? table[static_cast<size_t>(buffer.base)]
                          : row(buffer.other, iteration - 1);
  const bool even = iteration % 2 == 0;
  const bool first = even == (buffer.kind == ProgramBuffer::Kind::kCarry);
  return table[static_cast<size_t>(first ? buffer.base : buffer.other)];
}

}  // namespace weft

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/program.h"

namespace weft {

/// The buffers of a program that a step touches. A serial step runs on the first thread.
struct StepAccess {
  bool serial = false;
  std::vector<int32_t> reads, writes;
};

/// By step: whether it waits for all threads before it begins. It does only where it touches what
/// an unfinished step on another thread touches. The first step always waits: it may follow an
/// iteration of the loop around it. Buffers in the arena are placed.
std::vector<bool> place_barriers(std::span<const ProgramBuffer> buffers,
                                 std::span<const StepAccess> steps);

}  // namespace weft

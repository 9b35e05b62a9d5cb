#pragma once

#include <cstdint>

#include "kernel/definitions.h"

namespace weft {

/// A place in a buffer: a register and a number of elements from there.
struct LoadPlace {
  int32_t buffer = 0;
  Reg from = kNoReg;
  int64_t elements = 0;
};

/// Where a kLoad begins, constants that are added taken apart.
LoadPlace place_of(const Definitions& definitions, const KernelInstruction& load);

/// Whether both are known to be less than a cache line apart.
bool in_one_line(const KernelFunction& kernel, const LoadPlace& a, const LoadPlace& b);

}  // namespace weft

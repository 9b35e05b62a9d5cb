#pragma once

#include <vector>

#include "kernel/kernel_function.h"

namespace weft {

/// Among which threads a register holds one value, ordered from the most to the fewest.
enum class Uniformity : uint8_t { kCluster, kBlock, kWarp, kThread };

/// By register, for a GPU's kernel; without clusters at most kBlock. A register that is made under
/// a condition, or carried by a loop whose bounds are, is at most as uniform as the condition.
///     %3 = position warp; %4 = apply lt %3, %2; %5 = for (… to %4 …)  ->  kWarp
std::vector<Uniformity> derive_uniformity(const KernelFunction& kernel);

}  // namespace weft

#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "kernel/kernel_function.h"

namespace weft {

inline constexpr int64_t kLineBytes = 64;  ///< of a cache line on x86-64

/// Constants and scalar operations by the register that they define: copies, since bodies grow
/// while a pass works.
using Definitions = std::map<Reg, KernelInstruction>;
Definitions definitions_of(const KernelFunction& kernel);

/// The number that a register holds; nothing where no constant defines it.
std::optional<int64_t> number_in(const Definitions& definitions, Reg r);

/// By how much the register moves with `variable`; nothing where that is no number.
std::optional<int64_t> moves_with(const Definitions& definitions, Reg r, Reg variable);

}  // namespace weft

#pragma once

#include "target/target.h"

namespace weft {

/// Whether a CPU has an instruction that multiplies bfloat16 and adds up two products in float32.
bool multiplies_bfloat16(const Target& target);

}  // namespace weft

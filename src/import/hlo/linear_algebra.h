#pragma once

#include <string_view>

#include "import/hlo/translator.h"

namespace weft::hlo {

/// A custom call by which XLA or JAX names a factorisation or a solution of matrices: XLA's own, of
/// which it makes instructions, or LAPACK's routines. False for another target.
bool translate_linear_algebra_call(InstructionContext& n, std::string_view target);

}  // namespace weft::hlo

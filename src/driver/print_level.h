#pragma once

#include <string>

#include "driver/compilation.h"
#include "support/result.h"

namespace weft {

/// Text of a level that the compilation has reached: graph, tensor-program, plan, tile-program,
/// kernel, code.
Result<std::string> print_level(const Compilation& compilation, const std::string& level);

/// The tile program of a kernel with its scopes and, for a GPU, its template forms.
std::string tile_text(const PlannedKernel& kernel);

}  // namespace weft

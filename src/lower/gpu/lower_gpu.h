#pragma once

#include "kernel/kernel_function.h"
#include "support/result.h"
#include "tile/scope_analysis.h"
#include "tile/tile_program.h"

namespace weft::lowering {

Result<KernelFunction> lower_for_gpu(const TileProgram& program, const ScopeAnalysis& scopes);

}  // namespace weft::lowering

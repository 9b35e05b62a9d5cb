#pragma once

#include "kernel/kernel_function.h"
#include "support/result.h"
#include "target/target.h"
#include "tile/scope_analysis.h"
#include "tile/tile_program.h"

namespace weft::lowering {

Result<KernelFunction> lower_for_cpu(const TileProgram& program, const ScopeAnalysis& scopes,
                                     const Target& target);
/// The kernel without its instructions.
Result<KernelFunction> outline_for_cpu(const TileProgram& program, const ScopeAnalysis& scopes,
                                       const Target& target);

}  // namespace weft::lowering

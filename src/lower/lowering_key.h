#pragma once

#include "support/hash.h"
#include "target/target.h"
#include "tile/scope_analysis.h"
#include "tile/tile_program.h"

namespace weft {

/// Hash of all that lower_to_kernel makes a CPU's kernel of, but for names:
/// programs with equal keys have kernels of one digest (kernel_digest). What open sizes are bound
/// to is no part of it.
Hash128 lowering_key(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target);

}  // namespace weft

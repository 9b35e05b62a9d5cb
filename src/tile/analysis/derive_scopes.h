#pragma once

#include "tile/scope_analysis.h"

namespace weft {

/// Derives scopes, buffers and barriers (rules 1, 2 and the barrier rule of docs/tile_program.md).
/// Errors are programs that the verifier refuses.
Result<ScopeAnalysis> derive_scopes(const TileProgram& program);

}  // namespace weft

#pragma once

#include "target/target.h"
#include "tile/scope_analysis.h"

namespace weft {

/// Whether the program fits the target; otherwise what overflows, by how much (rule 4).
Decision fits(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target);

}  // namespace weft

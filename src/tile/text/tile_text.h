#pragma once

#include <string>
#include <string_view>

#include "tile/scope_analysis.h"
#include "tile/tile_program.h"

namespace weft {

/// The language of docs/tile_program.md. Printing and parsing are inverses.
std::string print(const TileProgram& program);
/// With the derived scopes and barriers as `--` comments.
std::string print(const TileProgram& program, const ScopeAnalysis& scopes);
/// Error: "line:column: …".
Result<TileProgram> parse_tile_program(std::string_view text);

uint64_t tile_program_hash(const TileProgram& program);  ///< names do not matter

/// The papers' template form, one per statement, e.g. `[GRID_128-WARP_2,WARP,WARP,CTA]S`
/// (FusionStitching 2019 §5.2).
std::string template_form(const TileProgram& program, const TileStatement& statement, Scope scope);

}  // namespace weft

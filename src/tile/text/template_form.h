#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tile/scope_analysis.h"
#include "tile/tile_program.h"

namespace weft {

/// A schedule template of FusionStitching (2019, §5.2), `[GRID_128-WARP_2,WARP,WARP,CTA]S`: for
/// each dimension of what a statement makes, and behind them for each that it reduces, the levels
/// over which it is split, outermost first. GRID is the loop over blocks, CLUSTER that over those
/// of a cluster (which the papers have not), WARP a warp of the block, CTA a thread of the warp,
/// THREAD what one thread does in turn: a loop, registers or the elements of a vector. S: the
/// result lies in shared memory.
struct TemplateForm {
  struct Level {
    enum class Kind : uint8_t { kGrid, kCluster, kWarp, kCta, kThread };
    Kind kind = Kind::kThread;
    int64_t extent = 0;  ///< 0: the rest of the dimension
    friend bool operator==(const Level&, const Level&) = default;
  };
  std::vector<std::vector<Level>> dimensions;
  bool shared = false;
  friend bool operator==(const TemplateForm&, const TemplateForm&) = default;
};

/// A level that is alone on its dimension has no number.
std::string print(const TemplateForm& form);
/// The inverse of print; numbers may stand everywhere. Error: what was expected, and where.
Result<TemplateForm> parse_template_form(std::string_view text);

/// What a statement of the program does.
TemplateForm template_form_of(const TileProgram& program, const TileStatement& statement,
                              Scope scope);

/// Of every statement, in the order of the text.
std::vector<TemplateForm> template_forms(const TileProgram& program, const ScopeAnalysis& scopes);

/// Gives statements, by their number in the text, the places and demands that forms state: WARP and
/// CTA become WARP and LANE, THREAD registers; GRID, CLUSTER and, where a `seq` loop runs along the
/// dimension, its THREAD are the loops that stand in the text. Error: a form whose dimensions or
/// loops are not the statement's.
Status place_by_forms(TileProgram& program,
                      const std::vector<std::pair<size_t, TemplateForm>>& forms);

}  // namespace weft

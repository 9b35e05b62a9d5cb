#pragma once

#include <vector>

#include "support/result.h"
#include "tile/scope_analysis.h"
#include "tile/tile_program.h"

namespace weft::lowering {

/// What all threads do together of a nest with barriers inside, one piece after the other.
struct GridPiece {
  enum class Kind : uint8_t {
    kItems,    ///< `items`, by each thread for its items
    kBarrier,  ///< of all threads
    kLoop,     ///< `pieces`, in every iteration of `loop`
  };
  Kind kind = Kind::kItems;
  TileNode items;
  /// kItems: the loop, or null, whose carries' first values are made here; kLoop: the loop.
  const TileLoop* loop = nullptr;
  std::vector<GridPiece> pieces;
};

/// A nest taken apart at its barriers, so that a thread may have any number of iterations of the
/// grid: it goes through them all before each barrier.
///     grid s { A; seq w carry h = 0 { -- barrier
///       B; } C; }
///     ->  grid s { A; h = 0; }  seq w { barrier; grid s { B; } }  grid s { C; }
/// Empty for a nest without barriers. Requires: what crosses a barrier lies in memory.
/// Error: a loop around a barrier that runs differently from one iteration of the grid to another.
Result<std::vector<GridPiece>> distribute_grid(const TileProgram& program,
                                               const ScopeAnalysis& scopes, const TileNode& nest,
                                               const std::vector<int32_t>& path);

/// Whether a barrier of the grid stands inside a nest.
bool has_inner_barrier(const TileProgram& program, const ScopeAnalysis& scopes);

}  // namespace weft::lowering

#pragma once

#include <cstdint>
#include <vector>

#include "tile/scope_analysis.h"
#include "tile/tile_structure.h"

namespace weft {

/// Loads that need not wait for a barrier of the grid (Souffle §6.5): of what no nest of the
/// program stores, by a loop of several stages behind the barrier. A block asks for them before it
/// waits, and they land behind it.
///     grid m { t[m] = … }     [copies of w, iterations 0 to n-2]  barrier
///     grid m, n { seq k step 16 stages n ahead { A = t …; B = w[k,n]; … } }

/// Whether a statement of a loop `ahead` loads so: a plain read of an input.
bool is_loaded_ahead(const TileProgram& program, const TileLoop& loop,
                     const TileStatement& statement);

/// Whether a body has a loop `ahead`.
bool has_loop_ahead(const TileBody& body);

/// A loop of several stages that may load ahead of the barrier before its nest.
struct LoopAhead {
  const TileLoop* loop = nullptr;
  std::vector<int32_t> path;                ///< of child indices
  std::vector<const TileStatement*> loads;  ///< that go ahead
  bool all = true;    ///< no other statement of the loop reads memory ahead of its iteration
  int64_t bytes = 0;  ///< of a block's memory, of all that goes ahead
  int32_t phase = 0;  ///< number of the barrier, in the order of the text
  size_t nests = 1;   ///< between that barrier and the next
};

/// The first loop of each nest, as far as
///   - the nest begins right behind a barrier of the grid, beside others or alone: nests that keep
///     values on chip have their phase alone, and no block comes to them behind another nest;
///   - the loop stands in loops of the grid alone: its first iteration is the first that a block
///     comes to, and no condition decides whether it does;
///   - its copies are as wide as asynchronous ones are, and each thread has as many of them.
/// Of recurrences, packs and clusters none are. `marked`: those that are `ahead`, else all that may
/// be.
std::vector<LoopAhead> loops_ahead(const TileStructure& structure, const ScopeAnalysis& scopes,
                                   bool marked);

}  // namespace weft

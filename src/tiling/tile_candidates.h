#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tiling/tiling_expression.h"

namespace weft {

/// Which of MCFuser's rules are on (§III-C).
struct PruningRules {
  bool equal_blocks = true;  ///< R1: one of those whose blocks do the same
  bool partial_tiles =
      true;             ///< R2: no loop that reduces outside one over what it makes for the next
  bool padding = true;  ///< R3: none along powers of two, below a twentieth else
  bool memory = true;   ///< R4: at most 1.2 times a block's memory
};

/// A tiling expression with the tile of each loop.
struct TileCandidate {
  TilingExpression expression;
  std::vector<int64_t> tiles;
};

/// What candidates are counted and weighed by.
struct TileLimits {
  int64_t unit = 16;            ///< tiles are multiples of it
  std::vector<int> whole = {};  ///< loops that are not cut
  int64_t block_bytes = 0;      ///< memory of a block
  double gigabytes = 1;         ///< a second, W
  double gigaflops = 1;         ///< P
  int64_t processors = 1;       ///< N_SM
};

/// The expressions that R1 and R2 leave, in the order of tiling_expressions.
std::vector<TilingExpression> pruned_expressions(const ContractionChain& chain, bool deep_only,
                                                 const PruningRules& rules);
/// The tiles that R3 leaves of a loop, ascending.
std::vector<int64_t> loop_tiles(const ContractionChain& chain, int loop, const TileLimits& limits,
                                const PruningRules& rules);
/// How many candidates there are without building them: R4 is not asked.
int64_t count_candidates(const ContractionChain& chain, const TileLimits& limits,
                         const PruningRules& rules);
/// Whether R4 leaves a candidate.
bool fits_block(const ContractionChain& chain, const std::vector<int64_t>& tiles,
                const TileLimits& limits, const PruningRules& rules);

/// Σ of the areas of all tiles of a block, bytes (Eq. 1).
int64_t block_bytes(const ContractionChain& chain, const std::vector<int64_t>& tiles);

/// (t_mem + t_comp) α, microseconds (Eq. 2-5): each statement in its rightmost related loop, loops
/// of one iteration dead.
double estimated_us(const ContractionChain& chain, const TileCandidate& candidate,
                    const TileLimits& limits);

/// The quickest candidate by the estimate, found by an evolutionary search (Alg. 1): a population
/// drawn at random, from which the next is drawn by 1/t with one tile of each changed, until no
/// round finds a better one. Deterministic. Nothing where the rules leave none.
std::optional<TileCandidate> search_tiles(const ContractionChain& chain, const TileLimits& limits,
                                          bool deep_only, const PruningRules& rules);

}  // namespace weft

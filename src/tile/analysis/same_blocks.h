#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "tile/scope_analysis.h"
#include "tile/tile_structure.h"

namespace weft {

/// Nests of a GPU's program whose iteration of one number is run by the same block: what one makes
/// a later one may read where the block has it (Souffle §6.5).
///     grid c in 96 { X[c,p] = x[c,p]; … }   grid r in 4 { … }   grid k in 96 { … X[k,p] … }
/// Steps of a recurrence read what nests before it made:
///     grid c in 96 { W[c,p] = w[c,p]; }   seq t in 100 { grid k in 96 { … W[k,p] … } … }

/// Where a nest stands: its number in the program's body; in a recurrence that of the loop, and its
/// number in the loop's body.
using NestPath = std::vector<int32_t>;

/// Whether a nest's iteration b can be run by block b: plain loops of the grid of known numbers of
/// iterations, no more of them than blocks.
bool is_nest_of_blocks(const TileStructure& structure, const NestPath& nest);

/// By origin of nest `later`'s loop: that of nest `earlier` with the same value in all blocks. None
/// where their loops are not alike. Dimensions of one iteration are left out. What a step makes is
/// there for this step's later nests alone.
using SameOrigins = std::map<TileVarId, TileVarId>;
std::optional<SameOrigins> same_blocks(const TileStructure& structure, const NestPath& earlier,
                                       const NestPath& later);

/// Values that a block keeps for a later nest. Lowering runs nests that make or read such values
/// from the first block on.
std::set<TileSymbolId> kept_for_later_nests(const TileStructure& structure,
                                            const ScopeAnalysis& scopes);
/// The nests that make them or read them.
std::set<NestPath> nests_of_kept(const TileStructure& structure, const ScopeAnalysis& scopes);

}  // namespace weft

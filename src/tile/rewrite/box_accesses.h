#pragma once

#include <map>
#include <optional>
#include <vector>

#include "tile/analysis/same_blocks.h"

namespace weft {

/// A load or store of a box of a tensor in memory, by one of the nests whose iteration b block b
/// runs (tile/analysis/same_blocks.h).
struct BoxAccess {
  NestPath nest;
  int32_t site = -1;
  TileSymbolId tensor = -1;  ///< what a view shows
  ScalarRef read;            ///< of a load
  const std::vector<IndexExpr>* indices = nullptr;
};

/// All of a program, in the order of the text. Left out are loads ahead of their loops, gathers,
/// reads with a fill, and what stands under conditions; tensors in another shape than they were
/// stored in, and parts of them.
std::vector<BoxAccess> box_accesses(const TileStructure& structure);

/// By variable of `later`: that of `earlier` in its place, where both are of one box of one tensor
/// in every block; they may stand in one nest.
using SameVariables = std::map<TileVarId, TileVarId>;
std::optional<SameVariables> same_box(const TileStructure& structure, const BoxAccess& earlier,
                                      const BoxAccess& later);

/// Coordinates of a value that holds the access's box: the loops over blocks, which tell the values
/// of blocks apart, then what else the indices run along. Nothing where a loop around the access
/// does not tell its iterations apart.
std::optional<std::vector<IndexExpr>> box_coordinates(const TileStructure& structure,
                                                      const BoxAccess& access);

/// Elements that a coordinate runs along in one block; 0 where they are not known.
int64_t elements_along(const TileStructure& structure, const IndexExpr& coordinate);

/// The same in all blocks together.
int64_t elements_of_all_blocks(const TileStructure& structure, const IndexExpr& coordinate);

}  // namespace weft

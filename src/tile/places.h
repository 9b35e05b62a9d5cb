#pragma once

#include <vector>

#include "tile/tile_structure.h"

namespace weft {

/// Where every statement and carry lies, with the places that the text leaves out.
///
/// A statement without a place takes that of its first read that has one, variable by variable of
/// that read; a reduced axis stays in the place of its statement (its threads hold copies of the
/// result), and threads that the read does not name stay as an axis with `var` -1. A matrix unit
/// fixes the places of its operands and its result. On a GPU a statement whose reads do not place
/// all of its variables takes the place of its first reader that does; what is still without one
/// is laid over vector elements, lanes and warps from the contiguous axis outwards (on a CPU
/// unrolled, REG).
struct PlaceTable {
  std::vector<Place> of_site;    ///< by site; conditions have none
  std::vector<Place> of_symbol;  ///< by symbol: its statement's or carry's
};
PlaceTable resolve_places(const TileStructure& structure);

/// In which place the statement wants what `read` names: its own, or that of a unit's operand.
Place reader_place(const TileStructure& structure, const PlaceTable& places, const ReadSite& read);

/// A digit of one axis with its position: element / divisor % extent goes to level position, which
/// counts `stride` threads (WARP, LANE) or registers (REG, VEC) a step.
struct PlacedDigit {
  PlaceLevel level = PlaceLevel::kReg;
  int64_t extent = 1;
  int64_t divisor = 1;
  int64_t stride = 1;
  friend bool operator==(const PlacedDigit&, const PlacedDigit&) = default;
};
/// Digits above extent 1, neighbours of one level joined.
std::vector<PlacedDigit> placed_digits(const Place& place, TileVarId var);

/// Product of a level's digits over all axes.
int64_t level_extent(const Place& place, PlaceLevel level);

/// The one box variable that the index moves with, step 1; -1 for none (a constant within the box),
/// -2 for anything else.
TileVarId axis_of(const TileProgram& program, const IndexExpr& e);

}  // namespace weft

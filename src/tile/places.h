#pragma once

#include <optional>
#include <string_view>
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

/// A statement `by` a matrix unit, sum[k] A[..m..k..] * B[..k..n..]: its operands, the axes that it
/// multiplies over, and how its warps share the result. Fragments are those of mma.sync: 16 x 8
/// results, rows over REG_2 and LANE_8, columns over LANE_4 and VEC_2; the left operand has its
/// columns over REG_2, LANE_4, VEC_2, the right one its columns over LANE_8 (32-bit elements:
/// without VEC_2). Without a place of the statement warps split rows first.
/// A warp group's (`by wgmma_m64k16`) has the same fragments of results, one row of tiles a warp,
/// and reads its operands out of block memory, where they lie in panels (GroupMultiplyPayload).
struct UnitProduct {
  const Scalar* a = nullptr;
  const Scalar* b = nullptr;
  TileVarId m = -1, n = -1, k = -1;
  int64_t warps_m = 1, warps_n = 1;
  int64_t tiles_m = 1, tiles_n = 1;  ///< 16 rows, 8 columns: of one warp
  int64_t lane_k = 2;    ///< elements that a lane has next to each other: 2 of 16 bits, 1 of 32
  int64_t halves_k = 1;  ///< 4 * lane_k of the depth: of every warp
  bool by_group = false;

  Place result() const;
  Place left() const;
  Place right() const;
};
inline constexpr std::string_view kGroupUnit = "wgmma_m64k16";
inline constexpr int64_t kGroupWarps = 4;      ///< that multiply together
inline constexpr int64_t kGroupColumns = 256;  ///< of one product at most
inline constexpr int64_t kPanelColumns = 64;   ///< 16-bit elements in a row of a panel
/// Of a loop whose products may be under way while the next operands arrive: with fewer, copies
/// would be one iteration ahead alone.
inline constexpr int64_t kStagesUnderWay = 4;
/// Nothing where the statement names no unit, or is not of this form.
std::optional<UnitProduct> unit_product(const TileProgram& program, const TileStatement& statement);

/// Whether warp groups multiply anywhere in the program.
bool multiplies_by_groups(const TileProgram& program);

/// Whether two places are one: digits of one thread or register say nothing.
bool lie_alike(const Place& a, const Place& b);

/// Whether `next` adds what a unit makes to a carry of float32, element by element: carry' = carry
/// + product. The unit does that itself where nothing else reads the product and both lie alike in
/// registers.
bool adds_to_carry(const TileProgram& program, const TileStatement& product,
                   const TileStatement& next);

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

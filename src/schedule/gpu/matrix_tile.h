#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "choice/choice.h"
#include "support/result.h"
#include "target/target.h"

namespace weft {

/// A product through tiles in shared memory, as the choice of its tile sees it.
struct MatrixProblem {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  int64_t element_bytes = 2;   ///< of the operands
  bool on_units = true;        ///< else on the plain cores
  int64_t depth = 16;          ///< of one instruction, or of the shortest step
  double gflops = 0;           ///< of the units or cores on this type
  int64_t epilogue_bytes = 4;  ///< moved for one result
  /// What one block must have of the finished results, because they are reduced: all columns of a
  /// row, or all rows of a column.
  enum class Whole : uint8_t { kNeither, kRows, kColumns };
  Whole whole = Whole::kNeither;
  /// Columns: tiles may also reduce those that they have, and what they leave is put together
  /// behind a barrier of the grid. Nothing of a row's elements is asked for behind it.
  bool in_parts = false;
  bool registers_on_the_way = false;  ///< some operand cannot be copied behind the threads' back
  /// Whether warp groups may multiply: the target has them, and all operands are copied. Whether
  /// rows of the operands' tiles run along the depth: a row is whole panels then (tile/places.h).
  bool by_groups = false, left_along = true, right_along = true;
  bool left_in_place = false, right_in_place = false;  ///< operands that the block keeps
  /// Of a stage: the blocks of one SM, which each go through all tiles.
  std::optional<int64_t> each;
};

/// On plain cores a warp is 4 x 8 lanes of REG x (REG, VEC_4) results each.
inline constexpr int64_t kCoreRows = 4, kCoreColumns = 32;  ///< of one result register of a warp
inline constexpr int64_t kCoreVector = 4;
inline constexpr int64_t kUnitRows = 16, kUnitColumns = 8;  ///< of one matrix instruction

/// Elements of a row that one thread may have where the parts of a depth are combined.
inline constexpr int64_t kMostCombined = 32;

/// Where a warp's tile is narrower, more of its lanes lie below each other.
int64_t core_columns(const TilesChoice& tile);
int64_t core_rows(const TilesChoice& tile);
/// Rows and columns of a tile of one register that waste the least on a product so narrow.
int64_t least_core_columns(int64_t columns);

/// Bytes that each SM has of the second-level cache in a cycle while all of them read it.
double cached_bytes_a_cycle(const Target& target);

inline int64_t warps_of(const TilesChoice& tile) { return tile.warps_m * tile.warps_n; }
/// Whether tiles reduce parts of the columns.
bool reduces_parts(const MatrixProblem& problem, const TilesChoice& tile);
/// Blocks of such a tile on an SM, all of them on the device at once.
int64_t blocks_at_once(const MatrixProblem& problem, const TilesChoice& tile, const Target& target);
/// What one of the splits goes through, in whole steps; the last may have less.
int64_t depth_of_split(const TilesChoice& tile, int64_t depth);
/// Of the operands' tiles, in all stages.
int64_t shared_bytes(const MatrixProblem& problem, const TilesChoice& tile);

struct PricedTile {
  TilesChoice tile;
  double microseconds = 0;
};

/// The `most` tiles that are predicted to be quickest, quickest first, in the manner of MCFuser's
/// analytical choice (§4.2): every candidate that fits registers and shared memory is priced by
/// what limits it (matrix units, shared memory, what reaches an SM, latency of an iteration) over
/// the waves that its blocks make. Of tiles within 0.1 % of each other the one of fewer splits, and
/// smaller, comes first. None if the target has no such units, or no tile fits.
///
/// What must be whole is one tile. Columns may be whole, too, where the parts of a shared depth are
/// combined: a warp adds up a row there, whatever tiles the parts came from; and several tiles
/// where they may be reduced in parts (MatrixProblem::in_parts).
std::vector<PricedTile> quickest_tiles(const MatrixProblem& problem, const Target& target,
                                       size_t most);

/// Whether quickest_tiles gives any: far cheaper, as the first that fits tells.
bool has_tile(const MatrixProblem& problem, const Target& target);

/// The time of one tile. Error (kInvalidInput): the tile is none for the problem, or does not fit
/// the target.
Result<double> tile_microseconds(const MatrixProblem& problem, const TilesChoice& tile,
                                 const Target& target);

}  // namespace weft

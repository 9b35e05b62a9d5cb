#pragma once

#include <cstdint>
#include <string>

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
  bool registers_on_the_way = false;  ///< some operand cannot be copied behind the threads' back
};

/// Tiles of a block, how its warps share them, and how deep it loads ahead.
struct MatrixTile {
  int64_t m = 0, n = 0, k = 0;
  int64_t warps_m = 1, warps_n = 1;
  int64_t stages = 2;
  int64_t splits = 1;  ///< of the depth, over blocks
  int64_t shared_bytes = 0;
  double microseconds = 0;

  int64_t warps() const { return warps_m * warps_n; }
  /// What one of the splits goes through, in whole steps; the last may have less.
  int64_t depth_of_split(int64_t depth) const;
};

/// The tile that is predicted to be quickest, in the manner of MCFuser's analytical choice (§4.2):
/// every candidate that fits registers and shared memory is priced by what limits it (matrix units,
/// shared memory, what reaches an SM, latency of an iteration) over the waves that its blocks make.
/// `m` of the result is 0 if the target has no such units, or no tile fits.
///
/// What must be whole is one tile. Columns may be whole, too, where the parts of a shared depth are
/// combined: a warp adds up a row there, whatever tiles the parts came from.
///
/// On plain cores a warp is 4 x 8 lanes of REG x (REG, VEC_4) results each.
inline constexpr int64_t kCoreRows = 4, kCoreColumns = 32;  ///< of one result register of a warp

/// Elements of a row that one thread may have where the parts of a depth are combined.
inline constexpr int64_t kMostCombined = 32;

MatrixTile choose_matrix_tile(const MatrixProblem& problem, const Target& target);

}  // namespace weft

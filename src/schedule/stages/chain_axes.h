#pragma once

#include <optional>
#include <vector>

#include "schedule/stages/block_space.h"
#include "tiling/tiling_expression.h"

namespace weft {

/// The axis that two contractions share, and the program of the steps along it.
struct SharedAxis {
  CarriedAxis axis;
  CarriedProgram carried;
};

/// Axes that contractions share: one makes of it in each step what another one reduces. Where there
/// is none, the axis of reductions of which one depends on another, as a log-sum-exp's on its
/// maximum: of rows from memory, or of what one contraction makes. The longest first, since of all
/// others blocks have the whole; of those as long that of the last contraction. Error
/// (kUnsupported): why there is none.
Result<std::vector<SharedAxis>> shared_axes(const BlockSpace& space);

/// The program of the steps along an axis that a composition names.
Result<CarriedProgram> carried_along(const BlockSpace& space, const CarriedAxis& axis);

/// What an axis of the second contraction's result is to the chain: batch where both operands move
/// with it, a row where only what the steps make does.
enum class AxisRole : uint8_t { kBatch, kRow, kMade };

/// A chain as its blocks see it: those have single elements of the batch, some rows, and all or
/// some of what is made.
struct ChainAxes {
  std::vector<AxisRole> roles;  ///< by output axis of the second contraction
  int last = -1;                ///< the member of the steps that carries its result
  int64_t rows = 1, made = 1;   ///< the longest axis of either kind
  BlockPartition partition;     ///< of the steps, over whole rows and all that is made
  int row_loop = -1;            ///< its loop over the rows; -1: there is none
  int made_axis = -1;           ///< of the first root: what `made` is the length of; -1: none
  /// Rows, depth of the first contraction, the shared axis, what is made.
  ContractionChain loops;
};
inline constexpr size_t kRowLoop = 0, kDepthLoop = 1, kSharedLoop = 2, kMadeLoop = 3;

/// `steps`: the space of the program of the steps. Error (kUnsupported): no loops over blocks give
/// each its rows.
Result<ChainAxes> chain_axes(const BlockSpace& whole, const SharedAxis& shared,
                             const BlockSpace& steps);

}  // namespace weft

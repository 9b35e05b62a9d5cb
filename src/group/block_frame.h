#pragma once

#include <vector>

#include "index/index_expr.h"

namespace weft {

/// What a block has of a tensor along one axis: `extent` elements from `origin`, as far as they lie
/// within the tensor's `full`. Origins are over the origins of the loops that cut the work into
/// blocks, by their numbers.
struct BoxAxis {
  IndexExpr origin = 0;
  int64_t extent = 1;
  int64_t full = 1;
};

/// The piece of a reduction's axis that a block goes over at once.
struct ReducedPiece {
  int variable = -1;  ///< of the expression; -1: it reduces over all of its axes
  BoxAxis box;
};

/// Of each expression of a program what a block makes of its result, and where the loops may stand.
struct BlockBoxes {
  std::vector<Interval> loops;              ///< the origins that a loop takes
  std::vector<int64_t> steps;               ///< by loop: its origins are multiples
  std::vector<std::vector<BoxAxis>> boxes;  ///< by expression
  std::vector<ReducedPiece> pieces;         ///< by expression; empty: none is reduced in pieces
  std::vector<bool> kept;                   ///< by expression: others read it in the block
  int64_t each = 1;                         ///< blocks that the busiest processor makes
};

/// Where the common axes of a stage run: from begin to end, over the origins of the loops around
/// the block, by number.
struct BlockFrame {
  struct Axis {
    IndexExpr begin = 0, end = 1;
  };
  std::vector<int64_t> loops;  ///< their steps, of which origins are multiples
  std::vector<Axis> axes;
  std::vector<bool> kept;  ///< by tensor of the space: a block keeps it for other stages, or theirs
  int64_t each = 1;        ///< blocks that the busiest processor makes
};

}  // namespace weft

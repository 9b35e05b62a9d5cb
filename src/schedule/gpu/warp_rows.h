#pragma once

#include <map>
#include <optional>
#include <vector>

#include "choice/choice.h"
#include "group/group_space.h"

namespace weft {

/// Where the elements of a value lie that a stage of a block hands on, by dimension: from where on,
/// how many, and over which threads and registers. The begin is over the loops around the block.
struct LaidDimension {
  IndexExpr begin = 0;
  int64_t extent = 1;
  std::vector<Place::Digit> digits;
};
using LaidOut = std::vector<LaidDimension>;

/// The rows of a stage laid out for what other stages hand it: axes of what it reads lie where
/// their makers have them, `made` by tensor of the space. All of a block's box is in its threads at
/// once. An axis along which the loops around the block are cut falls to warps, so that each has
/// its part of what all stages make; all others lie in one warp. Nothing where makers disagree, or
/// a thread would have too many elements. `like`: rows of the stage, whose axes are taken.
std::optional<RowsChoice> rows_in_warps(const GroupSpace& stage, const RowsChoice& like,
                                        const std::map<TensorId, LaidOut>& made);

/// What a stage hands on in the threads of its warps, by tensor of the space: nothing of rows that
/// its blocks go through in turns.
std::map<TensorId, LaidOut> laid_out(const GroupSpace& stage, const RowsChoice& choice);

/// Whether all reads of a tensor find its elements in their own warp, in registers of one number:
/// in their thread, or by shuffles.
bool finds_in_warp(const GroupSpace& stage, const RowsChoice& choice, TensorId tensor,
                   const LaidOut& made);

}  // namespace weft

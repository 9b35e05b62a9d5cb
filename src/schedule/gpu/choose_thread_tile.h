#pragma once

#include "choice/choice.h"
#include "group/group_space.h"
#include "target/target.h"

namespace weft {

/// How a group with one reduction lies on threads, a tile of its results for each: columns along
/// what lies one element after another, rows along what the columns' operands are read again for,
/// and the largest tile that still gives every SM a block.
/// Requires: holds_one_reduction.
ThreadTilesChoice choose_thread_tile(const GroupSpace& space, const Target& target);

/// The two factors of a product that blocks can pass through tiles in shared memory: made of reads
/// along one reduced axis of at least so many elements, one with the rows and one with the columns.
/// What is computed of their elements is computed once for a tile. Null where the reduction has no
/// such, or the choice no rows or columns.
struct SharedOperands {
  static constexpr int64_t kDepth = 8;  ///< of the tiles of both, at least
  ScalarRef rows, columns;
};
SharedOperands shared_operands(const GroupSpace& space, const ThreadTilesChoice& choice);

}  // namespace weft

#pragma once

#include <map>
#include <string>
#include <vector>

#include "choice/choice.h"
#include "expr/reductions/carry_reductions.h"
#include "group/block_frame.h"
#include "group/group.h"
#include "schedule/stages/index_hull.h"

namespace weft {

/// What one member of a group owes a block.
struct Demand {
  std::vector<BoxAxis> box;  ///< by output axis
  /// Loops of the partition around it: those over blocks, and of the turns as many as its box, or
  /// what it reads, changes with.
  int level = 0;
  bool read = false;   ///< by other members
  double times = 0;    ///< elements that all blocks make of it together, over those that there are
  ReducedPiece piece;  ///< of what it reduces; inside a loop that carries reductions
};

/// A loop inside all others that carries reductions, in steps along their axis. The levels of
/// members are one more for what its steps make, two more for what stands behind it.
struct CarryingLoop {
  const CarriedProgram* carried = nullptr;
  int64_t step = 1;
  /// Tensors of the program with what each part of a split axis leaves: the member that makes it.
  std::map<TensorId, int> parts = {};
};

/// What every member of a group owes a block of a partition, backwards from the roots: a producer
/// owes the images of its readers' boxes, times the readers' reduction domains, under each of their
/// reads, clipped to its tensor. The group need have no common axes.
///     y[m,e] = sum n: p[m,n] * v[n,e] in blocks of 16 m: of p [m, +16) and all n
struct DemandBoxes {
  std::vector<CutLoop> loops;  ///< those of the partition
  std::vector<int> outer;      ///< by loop: the one whose step it walks, or -1
  int over_blocks = 0;         ///< of them, the first ones
  int carrying = -1;           ///< of them, the one that carries reductions
  int64_t carried_extent = 0;  ///< of the axis along which it does
  /// Of that axis what a block's steps go over, in the loops over blocks: out of it masks leave
  /// nothing to add for any of its rows. The begin is a multiple of the step.
  IndexExpr carried_begin = 0, carried_end = 0;
  std::vector<Demand> members;   ///< by expression of the program
  double blocks = 1, turns = 1;  ///< iterations of the loops

  /// The boxes as a stage's space takes them, of so many cores or SMs.
  BlockBoxes boxes(int processors) const;
};

/// Boxes of the members of `group`, all expressions of `program`. Error (kUnsupported): what no
/// partition into such blocks makes: an output that blocks would store twice or in part, a member
/// that no root asks for, a box that lies outside of its tensor. Error (kInvalidInput): a partition
/// of axes that are not there.
Result<DemandBoxes> demand_boxes(const TensorProgram& program, const Group& group,
                                 const BlockPartition& partition);
/// The same of a program whose reductions a loop carries, of the same expressions as `program`.
/// Error (kInvalidInput): blocks that walk in turns, too.
Result<DemandBoxes> demand_boxes(const TensorProgram& program, const Group& group,
                                 const BlockPartition& partition, const CarryingLoop& loop);

/// Of the steps of a loop that carries, the share that blocks go over, as masks bound them: on
/// average, and of the block that goes furthest.
struct ReachedShare {
  double mean = 1, most = 1;
  friend bool operator==(const ReachedShare&, const ReachedShare&) = default;
};
ReachedShare reached_share(const DemandBoxes& demand);

/// One line for each loop and each member:
///     i0 in 0..8; i1 in 0..512 step 64
///     v0: [0] [i0] [i1, +64) [0, +512) made 1.00 times
std::string print(const DemandBoxes& demand);

}  // namespace weft

#pragma once

#include <map>
#include <vector>

#include "group/join_moments.h"
#include "schedule/writer/moment_sums.h"
#include "target/target.h"
#include "tile/tile_program.h"

namespace weft {

/// How element-wise expressions and reductions over common axes lie on a GPU's blocks.
struct RowLayout {
  int vec_axis = -1;           ///< along which memory is read in vectors
  std::vector<int> free, row;  ///< axes of extent > 1, outermost first: of the grid, of a row
  std::map<int, std::vector<Place::Digit>> digits;  ///< by axis; none: one element
  int64_t warps = 1;
  /// Whether a thread's part of a row stays in registers from its load to its last use; else each
  /// level of reductions is a sweep over the row.
  bool resident = true;
  /// Whether pairs of a sum and a second moment are made together: in sweeps and split rows, where
  /// that saves a sweep or a barrier.
  bool joins = false;
  /// A row shared by several blocks: each has `part` elements of the row axis `split`, and partial
  /// results meet at a barrier of the grid, or of the cluster that the blocks are. -1: a row
  /// belongs to one block.
  int split = -1;
  int64_t part = 0, parts = 1;
  bool cluster = false;
  /// Blocks that take several boxes of the grid each and keep what does not change with its axes
  /// behind the first `kept_dims`; 0: one block for each box.
  int64_t blocks = 0;
  bool keeps = false;
  size_t kept_dims = 0;
  /// Such blocks form clusters of so many, which load what they keep in parts; 1: each for itself.
  int64_t together = 1;
  /// Blocks that an SM must hold, for a barrier of the grid or to be busy; 0: no demand.
  int64_t per_sm = 0;
  /// Element-wise: the axis along which what lies across the vectors is contiguous; tiles of such
  /// tensors pass through shared memory, read with `cross_digits`. -1: nothing does.
  int cross = -1;
  std::map<int, std::vector<Place::Digit>> cross_digits;  ///< of vec_axis and cross
  double microseconds = 0;                                ///< predicted
  size_t number = 0;  ///< in the order in which layouts were thought of
};

/// The layouts of a group, those predicted faster first; the last one has sweeps of few elements
/// in one block and always fits. The prediction takes the bytes that are moved, the part of the
/// device that the blocks keep busy (memory_us) and, where rows are split, a barrier for each level
/// of reductions (AStitch §4.3, adaptive thread mapping: many short rows share a block, few long
/// ones are split over blocks): of the grid, with all blocks on the device at once, or where the
/// target has clusters and few blocks suffice, of one, in as many rounds as there are rows.
std::vector<RowLayout> row_layouts(const TensorProgram& program, const Group& group,
                                   const GroupAxes& axes, const JoinedGroup& joined,
                                   const Target& target);

}  // namespace weft

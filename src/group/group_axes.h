#pragma once

#include <span>
#include <vector>

#include "expr/leaves.h"
#include "group/group.h"
#include "support/result.h"

namespace weft {

/// The iteration space that the expressions of a group share: common axes, and for every expression
/// the common axis of each of its own axes (output axes, then reduction axes). Expressions of the
/// group read each other element by element: every index of such a read is one axis or, where the
/// extent is 1, zero.
struct GroupAxes {
  struct Axis {
    int64_t extent = 1;
    bool reduced = false;  ///< some expression reduces over it
    bool open = false;     ///< its extent depends on a dimension that the model leaves open
  };
  std::vector<Axis> axes;
  /// By position in Group::exprs: common axis of each own axis.
  std::vector<std::vector<int>> axis_of;
  /// By position: reductions passed on the longest way from the group's inputs (a reduction's own
  /// is not counted).
  std::vector<int> level;
  int levels = 1;
  std::vector<int> reductions;  ///< positions of expressions that reduce

  /// Position of the producer of a tensor inside the group, -1 if it comes from outside.
  std::vector<std::pair<TensorId, int>> producers;
  int producer(TensorId t) const;
};

/// Whether an expression of the group runs along a common axis.
bool has_axis(const GroupAxes& axes, int position, int axis);

/// Derives the shared axes, or says which read prevents it.
Result<GroupAxes> derive_group_axes(const TensorProgram& program, const Group& group);
/// The same of expressions whose bodies have these leaves, by position, instead of their own.
Result<GroupAxes> derive_group_axes(const TensorProgram& program, const Group& group,
                                    std::span<const std::vector<Leaf>> leaves);

}  // namespace weft

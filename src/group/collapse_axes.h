#pragma once

#include "group/cut_group.h"
#include "group/group_axes.h"

namespace weft {

/// A group cut out of its program in which axes that everything walks together are one:
/// `y[i,j] = f(x[i,j]) + b[i,j]` becomes `y[k] = f(x[k]) + b[k]`, so that a kernel sees few long
/// loops and no short inner one. `axes` are the common ones of the view.
///
/// Requires and establishes what begin_cut does. Error (kUnsupported): no common axes.
struct CollapsedGroup {
  GroupView view;
  GroupAxes axes;
};
Result<CollapsedGroup> collapse_axes(const TensorProgram& program, const Group& group,
                                     const CutOptions& options = {});

}  // namespace weft

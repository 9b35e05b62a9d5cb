#pragma once

#include "group/group_axes.h"

namespace weft {

/// Contiguity of a common axis: elements between neighbours along it in a read or in the output; -1
/// when not affine, 0 when the tensor does not depend on it.
int64_t stride_along(const TensorProgram& program, const GroupAxes& axes, int position,
                     const Scalar& read, int axis);
int64_t output_stride_along(const TensorProgram& program, const GroupAxes& axes, const Group& group,
                            int position, int axis);

/// Whether a read lies along `cross` and across `axis`: neighbours along the one are neighbours in
/// memory, those along the other are not. Gathers and reads with a fill do not count.
bool crosses(const TensorProgram& program, const GroupAxes& axes, int position, const Scalar& read,
             int axis, int cross);

}  // namespace weft

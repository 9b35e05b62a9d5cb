#pragma once

#include <optional>
#include <string>

#include "group/group_axes.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// The second on a GPU where further reductions follow the first, a product: each runs over all
/// columns of the product's rows, or over all rows of its columns, and a tile holds what it needs.
Decision reductions_behind_product(const TensorProgram& program, const Group& group,
                                   const GroupAxes& axes, const Target& target);

/// The same two on a GPU: blocks, warps and lanes instead of cores and vectors.
Result<ScheduledKernel> build_thread_stitch(const TensorProgram& program, const Group& group,
                                            const GroupAxes& axes, const Target& target,
                                            const std::string& name);
Result<ScheduledKernel> build_thread_contract(const TensorProgram& program, const Group& group,
                                              const GroupAxes& axes, const Target& target,
                                              const std::string& name);
/// On a GPU with barriers of the grid: element-wise expressions and reductions along rows and
/// across them (group/two_ways.h), the input read once. Rows stay in a block's registers.
Decision two_ways_apply(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                        const Target& target);
Result<ScheduledKernel> build_two_way_stitch(const TensorProgram& program, const Group& group,
                                             const GroupAxes& axes, const Target& target,
                                             const std::string& name);
/// Products of 16-bit floats on the matrix units, of float32 where the target allows tf32; nothing
/// where the group is no such product or the target has no such units.
std::optional<ScheduledKernel> build_matrix_contract(const TensorProgram& program,
                                                     const Group& group, const GroupAxes& axes,
                                                     const Target& target, const std::string& name);

}  // namespace weft

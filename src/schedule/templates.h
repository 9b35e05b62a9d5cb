#pragma once

#include <optional>

#include "schedule/group_axes.h"
#include "schedule/schedule.h"

namespace weft {

/// Whether every axis that the choices name is one of the group's, and every axis that the group
/// runs over (of another extent than 1) is among them, reduced ones as inner ones: at another
/// binding of the model's dimensions an axis may be longer than 1 that was not here.
bool fits_axes(const ScheduleChoices& choices, const GroupAxes& axes);

/// Element-wise expressions and reductions over one common set of axes, stitched in one sweep per
/// level: normalisations, softmax-like chains, any elementwise chain (no reduction at all). Values
/// that a later sweep needs are kept in scratch or computed again, whichever is predicted cheaper.
Decision stitch_applies(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                        const Target& target);
/// `as_chosen`: the choices to follow; null: the best ones.
Result<ScheduledKernel> build_stitch(const TensorProgram& program, const Group& group,
                                     const GroupAxes& axes, const Target& target,
                                     const std::string& name,
                                     const ScheduleChoices* as_chosen = nullptr);

/// One reduction with a register tile on two of its output axes (a product is read again along each
/// of them), and elementwise consumers on the finished tile: matrix products, convolutions,
/// windows.
Decision contract_applies(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                          const Target& target);
Result<ScheduledKernel> build_contract(const TensorProgram& program, const Group& group,
                                       const GroupAxes& axes, const Target& target,
                                       const std::string& name,
                                       const ScheduleChoices* as_chosen = nullptr);

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
/// across them (schedule/two_ways.h), the input read once. Rows stay in a block's registers.
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

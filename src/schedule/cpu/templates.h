#pragma once

#include <string>

#include "group/group_axes.h"
#include "schedule/writer/scheduled_kernel.h"

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

}  // namespace weft

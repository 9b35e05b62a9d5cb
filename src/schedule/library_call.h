#pragma once

#include <optional>

#include "schedule/group_axes.h"
#include "schedule/schedule.h"
#include "target/library_call.h"

namespace weft {

/// The library call that does what the whole group does, for a target that names a library which
/// has it: one contraction of two matrices (or of a batch of them), with a bias along its columns,
/// a clamp at zero and a conversion to the result's type after it. nullopt when the group is more
/// than that, and where the product is bound by memory: what a library gains is arithmetic.
/// `parameters` are the tensors of the kernel's buffers, in order.
std::optional<LibraryCall> library_call(const TensorProgram& program, const Group& group,
                                        const GroupAxes& axes, const Estimate& estimate,
                                        const std::vector<TensorId>& parameters,
                                        const Target& target);

}  // namespace weft

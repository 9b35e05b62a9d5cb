#pragma once

#include <map>
#include <optional>

#include "group/group_axes.h"
#include "schedule/writer/scheduled_kernel.h"
#include "target/library_call.h"

namespace weft {

/// The library call that does what the whole group does, for a target that names a library which
/// has it: a contraction of matrices or a convolution, with what the library may do after it
/// (match_product, match_convolution). nullopt when the group is more than that, and where it is
/// bound by memory: what a library gains is arithmetic. `parameters` are the tensors of the
/// kernel's buffers, in order.
std::optional<LibraryCall> library_call(const TensorProgram& program, const Group& group,
                                        const GroupAxes& axes, const Estimate& estimate,
                                        const std::vector<TensorId>& parameters,
                                        const Target& target);

/// What such a call is taken to need: the time of its bytes, or of its arithmetic at the share of
/// the peak that libraries reach, and a launch.
double library_us(const LibraryCall& call, const Estimate& estimate, const Target& target);

/// Orders of constants in which a library takes the group's convolution where it does not as they
/// lie: channels of the weights last, where those of images are. Empty where that changes nothing.
std::map<TensorId, Layout> library_orders(const TensorProgram& program, const Group& group,
                                          const Target& target);

}  // namespace weft

#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// Takes what a kernel composes, reads and counts into that of its launch: compositions, flops,
/// bytes, and those of its parameters that the launch has not yet. One that members see in
/// different shapes is a parameter for each. `symbols` are those of the launch's parameters;
/// `known` the parameters of tensors that are one whatever their shape. Returns the numbers of its
/// parameters in the launch.
std::vector<int32_t> take_member(const ScheduledKernel& member,
                                 const std::map<TensorId, int32_t>& known,
                                 std::vector<const TileSymbol*>* symbols, ScheduledKernel* launch);

/// The kernels one after another in one program (join_programs), their sums, compositions and
/// parameters: `outputs[m]` are the tensors that member m stores. What it takes, and its scopes,
/// are left to whoever knows the target.
ScheduledKernel members_in_turn(std::span<const ScheduledKernel* const> members,
                                const std::vector<std::vector<TensorId>>& outputs,
                                const std::string& name, int64_t blocks);

/// The same of independent kernels side by side (pack_programs); `shares` are the blocks of each.
ScheduledKernel members_side_by_side(std::span<const ScheduledKernel* const> members,
                                     std::span<const int64_t> shares, const std::string& name);

/// Iterations of the grid loops of a nest; 0 where their number is not known.
int64_t grid_items(const TileNode& node);

/// Whether all parameters have extents that are numbers.
bool has_constant_shapes(const TileProgram& program);

}  // namespace weft

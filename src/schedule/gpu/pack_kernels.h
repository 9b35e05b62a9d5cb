#pragma once

#include <string>
#include <vector>

#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// What a kernel takes beyond its launch, in microseconds.
double work_us(const ScheduledKernel& kernel, const Target& target);

/// The part of the device that blocks of so many warps keep busy, by the threads that its bandwidth
/// asks for; above 1 where there are more.
double busy_share(int64_t blocks, int64_t warps, const Target& target);

/// Registers of a thread beside those of a program's values: operands of products, on their way to
/// the arithmetic.
inline constexpr int64_t kOperandRegisters = 48;

/// Whether a kernel's blocks may share a launch with others': one nest of an item for each, and
/// nothing that blocks wait for together (a barrier of the grid, a cluster, a library). Blocks that
/// go through several items each are as many as fill the device, and clusters would make all blocks
/// of the launch clusters of their size.
Decision can_pack(const ScheduledKernel& kernel);

/// Kernels side by side in one launch, each on blocks of its own. The prediction is that of the
/// longest, or what all of them ask of the device together, at most one after another.
///
/// Requires: can_pack of each, and that none reads what another makes.
Result<ScheduledKernel> pack_kernels(const std::vector<const ScheduledKernel*>& members,
                                     const std::string& name, const Target& target);

}  // namespace weft

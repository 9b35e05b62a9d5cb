#pragma once

#include <span>
#include <string>
#include <vector>

#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// Whether a CPU's kernel can be a part of a larger one: its threads meet between its nests alone,
/// and extents are numbers.
Decision can_share_launch(const ScheduledKernel& kernel);

/// Kernels of a CPU one after another in one launch: nests of one program, with a barrier of all
/// threads before what reads what an earlier one stores (AStitch §4.2). `outputs[m]` are the
/// tensors that member m stores. Predicted by cost/latency.
///
/// Requires: can_share_launch of each. Error (kUnsupported): what is handed on is not row-major,
/// or threads have no room for what all of them keep.
Result<ScheduledKernel> join_on_cpu(std::span<const ScheduledKernel* const> members,
                                    const std::vector<std::vector<TensorId>>& outputs,
                                    const std::string& name, const Target& target);

/// Independent kernels of a CPU side by side: their items are one list that threads share out, so
/// that kernels of fewer items than there are threads run at once (FusionStitching 2019 §3.1).
///
/// Requires: can_share_launch of each, and one nest. Errors as above.
Result<ScheduledKernel> pack_on_cpu(std::span<const ScheduledKernel* const> members,
                                    const std::string& name, const Target& target);

}  // namespace weft

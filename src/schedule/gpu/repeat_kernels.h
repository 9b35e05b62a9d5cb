#pragma once

#include <map>

#include "schedule/gpu/join_kernels.h"
#include "tile/rewrite/repeat_program.h"

namespace weft {

/// What all iterations of kernels one after another are predicted to take in one launch: a barrier
/// before each phase, and those around what is carried.
double estimate_repetition(const JoinEstimate& once, int64_t trips, const Target& target);

/// The kernels one after another, all of it `trips` times in one launch. `tensors`: what is no
/// kWhole to the iterations. `resident`: by one block an SM, which loads before the first iteration
/// what all of them read alike, as much as its memory holds (tile/rewrite/make_resident.h); nests
/// that the same blocks run are one (tile/rewrite/merge_nests.h). Its time is that of the kernels
/// without it, less what it makes a step shorter (cost/gpu_latency.h). Error (kUnsupported): why
/// they cannot share a launch, or that nothing can stay.
Result<ScheduledKernel> repeat_kernels(std::span<const JoinMember> members,
                                       const std::vector<std::vector<TensorId>>& outputs,
                                       const JoinEstimate& estimate, const std::string& name,
                                       const std::map<TensorId, RepeatedParameter>& tensors,
                                       int64_t trips, const Target& target, bool resident = false);

}  // namespace weft

#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "plan/fusion_plan.h"
#include "schedule/gpu/agree_rows.h"
#include "schedule/gpu/join_kernels.h"

namespace weft {

/// What one launch with loops has to save in the place of so many: a part of what these take
/// beyond their work. Of that the prediction is sure, and blocks that wait hold the device.
double worth_waiting_us(int64_t launches, const Target& target);

/// The target for a kernel that shares its launch: no block waits for others.
Target without_waiting(Target target);

/// The group's kernel for a launch that it shares: one whose blocks wait for each other, or keep
/// what their rows have in common, gives that up, for what its template says that it costs. Where
/// no template holds the group then it stays as it is, and shares none.
Result<ScheduledKernel> packable(const TensorProgram& program, const Group& group,
                                 const std::string& name, const Target& target,
                                 const ScheduledKernel& best);

/// The group's kernel for a launch with others behind barriers: one whose blocks wait for each
/// other inside gives that up, as in `packable`.
Result<ScheduledKernel> joinable(const TensorProgram& program, const Group& group,
                                 const std::string& name, const Target& target,
                                 const ScheduledKernel& best);

/// The kernel on blocks of at most so many warps, for what its template says that it costs; nothing
/// where it has no more, or cannot (schedule/gpu/narrow_rows.h).
std::optional<ScheduledKernel> on_fewer_warps(const TensorProgram& program, const Group& group,
                                              const Target& target, const ScheduledKernel& kernel,
                                              int64_t warps);

/// Two kernels of one launch that load or store the tensor, cut into equal boxes of it
/// (schedule/gpu/agree_rows.h); none where that cannot be.
struct MemberKernel {
  const Group& group;
  const ScheduledKernel& kernel;
};
struct AgreeingKernels {
  ScheduledKernel first, second;
};
std::vector<AgreeingKernels> in_equal_boxes(const TensorProgram& program, const MemberKernel& first,
                                            const MemberKernel& second, TensorId tensor,
                                            const BlocksOfLaunch& launch, const Target& target);

/// Members of a launch one after another: each with the barriers before it, those of `groups` whose
/// results it reads; `schedules[m]` of `groups[m]`. Error (kInvalidInput): why one cannot join.
Result<std::vector<JoinMember>> members_in_turns(const std::vector<Group>& groups,
                                                 const std::vector<ScheduledKernel>& schedules,
                                                 const std::string& name, const Target& target);

/// What one of many iterations of the members takes in a launch of all of them.
Result<JoinEstimate> estimate_iteration(const TensorProgram& body,
                                        std::span<const JoinMember> members, const Target& target);

/// The members, by ascending levels one after another in each iteration of the loop, in one launch;
/// `resident`: that keeps on chip what all iterations read. Error (kUnsupported): why they cannot
/// share one.
Result<ScheduledKernel> in_all_iterations(const TensorProgram& body, const RegionLoop& loop,
                                          const std::vector<Group>& groups,
                                          const std::vector<JoinMember>& members,
                                          const JoinEstimate& estimate, const std::string& name,
                                          const Target& target, bool resident = false);

/// Bytes of the tensors that kernels touch (their parameters), each once.
int64_t touched_bytes(const TensorProgram& program, const std::set<TensorId>& parameters);

/// The kernel that groups share, not scheduled yet.
PlannedKernel united(std::string name, std::vector<Group> members);
/// The same of kernels of a plan, under the name of the first.
PlannedKernel united(const std::vector<PlannedKernel>& kernels,
                     const std::vector<int32_t>& members);

}  // namespace weft

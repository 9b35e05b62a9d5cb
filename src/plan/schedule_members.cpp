#include "plan/schedule_members.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "plan/loop_member.h"
#include "schedule/cpu/share_launch.h"
#include "schedule/gpu/cluster_device.h"
#include "schedule/gpu/join_kernels.h"
#include "schedule/gpu/narrow_rows.h"
#include "schedule/gpu/pack_kernels.h"
#include "schedule/gpu/repeat_kernels.h"

namespace weft {

double worth_waiting_us(int64_t launches, const Target& target) {
  constexpr double kPart = 0.05;
  return kPart * target.launch_us * static_cast<double>(launches);
}

Target without_waiting(Target target) {
  target.grid_barriers = false;
  target.cluster_blocks = 0;
  target.libraries.clear();
  return target;
}

namespace {

/// What `best` takes, and what the other layout's template says that it takes longer.
void price_beside(const ScheduledKernel& best, ScheduledKernel& kernel) {
  kernel.estimate.microseconds =
      best.estimate.microseconds + std::max(0.0, kernel.layout_us - best.layout_us);
  if (kernel.predicted_us) kernel.predicted_us = kernel.estimate.microseconds;
}

Result<ScheduledKernel> not_waiting(const TensorProgram& program, const Group& group,
                                    const std::string& name, const Target& target,
                                    const ScheduledKernel& best) {
  // What a leaf of the same takes is not known from what the chain does.
  if (best.composition.kind == Composition::Kind::kChain) return best;
  auto without = schedule_leaf(program, group, without_waiting(target), name);
  if (!without.ok() && without.error().code == ErrorCode::kUnsupported) return best;
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel, std::move(without));
  price_beside(best, kernel);
  return kernel;
}

const RowsChoice* rows_of(const ScheduledKernel& kernel) {
  if (kernel.composition.kind != Composition::Kind::kLeaf) return nullptr;
  return std::get_if<RowsChoice>(&kernel.composition.choice);
}

/// The same group by another choice, for what its template says that this takes longer; nothing
/// where it does not build.
std::optional<ScheduledKernel> by_rows(const TensorProgram& program, const MemberKernel& member,
                                       const RowsChoice& rows, const Target& target) {
  Composition composition = member.kernel.composition;
  composition.choice = rows;
  auto built =
      build_composition(program, member.group, composition, target, member.kernel.program.name);
  if (!built.ok()) return std::nullopt;
  ScheduledKernel out = std::move(*built);
  const double layout_us = out.layout_us;
  out.estimate = member.kernel.estimate;
  out.predicted_us = member.kernel.predicted_us;
  // Only some layouts have a prediction.
  if (member.kernel.layout_us > 0 && layout_us > 0) price_beside(member.kernel, out);
  return out;
}

/// Rows that are split over blocks of the grid, with nests of their own behind their barriers
/// (AStitch's adaptive thread mapping in a launch of several kernels); nothing where blocks share
/// no rows.
std::optional<ScheduledKernel> in_nests(const TensorProgram& program, const Group& group,
                                        const std::string& name, Target target,
                                        const ScheduledKernel& best) {
  if (!target.grid_barriers || rows_of(best) == nullptr) return std::nullopt;
  target.cluster_blocks = 0;
  target.libraries.clear();
  auto leaf = schedule_leaf(program, group, target, name);
  const RowsChoice* rows = leaf.ok() ? rows_of(*leaf) : nullptr;
  if (rows == nullptr || rows->parts == 1) return std::nullopt;
  price_beside(best, *leaf);
  if (can_join(*leaf)) return std::move(*leaf);
  RowsChoice apart = *rows;
  apart.apart = true;
  auto out = by_rows(program, {group, *leaf}, apart, target);
  return out && can_join(*out) ? std::move(out) : std::nullopt;
}

}  // namespace

Result<ScheduledKernel> packable(const TensorProgram& program, const Group& group,
                                 const std::string& name, const Target& target,
                                 const ScheduledKernel& best) {
  if (can_pack(best)) return best;
  if (const RowsChoice* rows = rows_of(best)) {
    const std::optional<RowsChoice> apart = rows_for_each_box(*rows);
    auto kernel = apart ? by_rows(program, {group, best}, *apart, target) : std::nullopt;
    if (kernel && can_pack(*kernel)) return std::move(*kernel);
  }
  return not_waiting(program, group, name, target, best);
}

Result<ScheduledKernel> joinable(const TensorProgram& program, const Group& group,
                                 const std::string& name, const Target& target,
                                 const ScheduledKernel& best) {
  if (can_join(best)) return best;
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel whole, not_waiting(program, group, name, target, best));
  auto parted = in_nests(program, group, name, target, best);
  const bool quicker =
      parted && (!can_join(whole) || parted->estimate.microseconds < whole.estimate.microseconds);
  return quicker ? std::move(*parted) : std::move(whole);
}

std::optional<ScheduledKernel> on_fewer_warps(const TensorProgram& program, const Group& group,
                                              const Target& target, const ScheduledKernel& kernel,
                                              int64_t warps) {
  const RowsChoice* rows = rows_of(kernel);
  const std::optional<RowsChoice> narrow = rows ? narrow_rows(*rows, warps) : std::nullopt;
  if (!narrow) return std::nullopt;
  auto out = by_rows(program, {group, kernel}, *narrow, target);
  return out && can_join(*out) ? std::move(out) : std::nullopt;
}

std::vector<AgreeingKernels> in_equal_boxes(const TensorProgram& program, const MemberKernel& first,
                                            const MemberKernel& second, TensorId tensor,
                                            const BlocksOfLaunch& launch, const Target& target) {
  const RowsChoice *rows = rows_of(first.kernel), *others = rows_of(second.kernel);
  if (rows == nullptr || others == nullptr) return {};
  const auto space = GroupSpace::of(program, first.group, target);
  const auto other = GroupSpace::of(program, second.group, target);
  if (!space.ok() || !other.ok()) return {};
  std::vector<AgreeingKernels> out;
  for (const AgreeingRows& like :
       agreeing_rows({*space, *rows}, {*other, *others}, tensor, launch)) {
    auto a = by_rows(program, first, like.first, target);
    auto b = by_rows(program, second, like.second, target);
    if (a && b && can_join(*a) && can_join(*b)) out.push_back({std::move(*a), std::move(*b)});
  }
  return out;
}

std::vector<TensorId> kept_outputs(const PlannedKernel& kernel) {
  std::vector<TensorId> out;
  for (const Group& member : kernel.members) {
    for (const TensorId t : member.outputs) {
      if (std::ranges::find(kernel.group.outputs, t) == kernel.group.outputs.end())
        out.push_back(t);
    }
  }
  return out;
}

PlannedKernel united(std::string name, std::vector<Group> members) {
  PlannedKernel out;
  out.name = std::move(name);
  for (const Group& member : members) {
    out.group.exprs.insert(out.group.exprs.end(), member.exprs.begin(), member.exprs.end());
    out.group.outputs.insert(out.group.outputs.end(), member.outputs.begin(), member.outputs.end());
  }
  std::ranges::sort(out.group.exprs);
  const auto again = std::ranges::unique(out.group.exprs);
  out.group.exprs.erase(again.begin(), again.end());
  out.members = std::move(members);
  return out;
}

PlannedKernel united(const std::vector<PlannedKernel>& kernels,
                     const std::vector<int32_t>& members) {
  const auto kernel = [&](int32_t k) -> const PlannedKernel& {
    return kernels[static_cast<size_t>(k)];
  };
  std::vector<Group> groups;
  for (const int32_t k : members) groups.push_back(kernel(k).group);
  PlannedKernel out = united(kernel(members[0]).name, std::move(groups));
  for (const int32_t k : members) out.is_compute |= kernel(k).is_compute;
  return out;
}

int64_t touched_bytes(const TensorProgram& program, const std::set<TensorId>& parameters) {
  int64_t bytes = 0;
  for (const TensorId t : parameters) {
    const TensorType& type = program.tensors[static_cast<size_t>(t)].type;
    bytes += element_count(type.shape).value_or(0) * byte_size(type.dtype);
  }
  return bytes;
}

Result<JoinEstimate> estimate_iteration(const TensorProgram& body,
                                        std::span<const JoinMember> members, const Target& target) {
  std::set<TensorId> parameters;
  for (const JoinMember& member : members)
    parameters.insert(member.kernel->parameters.begin(), member.kernel->parameters.end());
  return estimate_join(members, target, touched_bytes(body, parameters));
}

namespace {

bool makes(const Group& group, TensorId t) {
  return std::ranges::find(group.outputs, t) != group.outputs.end();
}

}  // namespace

Result<std::vector<JoinMember>> members_in_turns(const std::vector<Group>& groups,
                                                 const std::vector<ScheduledKernel>& schedules,
                                                 const std::string& name, const Target& target) {
  std::vector<JoinMember> members;
  for (size_t m = 0; m < schedules.size(); ++m) {
    if (Decision joins = can_join(schedules[m]); !joins)
      return invalid_input(name + ": a member shares no launch: " + joins.reason());
    JoinMember member = join_member(schedules[m], target);
    for (size_t before = 0; before < m; ++before) {
      for (const TensorId t : schedules[m].parameters) {
        if (makes(groups[before], t))
          member.level = std::max(member.level, members[before].level + 1);
      }
    }
    members.push_back(member);
  }
  return members;
}

namespace {

/// What the tensors of a loop's body are to its iterations; those that are left are the same in
/// all.
std::map<TensorId, RepeatedParameter> repeated_tensors(const TensorProgram& body,
                                                       const RegionLoop& loop,
                                                       const std::vector<Group>& groups) {
  using Kind = RepeatedParameter::Kind;
  std::map<TensorId, RepeatedParameter> out;
  for (const Group& group : groups) {
    for (const TensorId t : group.outputs) out[t] = {.kind = Kind::kPassed};
  }
  const auto reversed = [](const std::vector<bool>& list, size_t i) {
    return i < list.size() && list[i];
  };
  const auto carries = static_cast<size_t>(loop.carries);
  for (size_t i = 0; i < carries + static_cast<size_t>(loop.scanned); ++i) {
    out[body.inputs[i]] =
        i < carries ? RepeatedParameter{.kind = Kind::kCarried, .carry = static_cast<int32_t>(i)}
                    : RepeatedParameter{.kind = Kind::kSlice,
                                        .reversed = reversed(loop.reversed_inputs, i - carries)};
  }
  for (size_t o = 0; o < body.outputs.size(); ++o) {
    out[body.outputs[o]] =
        o < carries ? RepeatedParameter{.kind = Kind::kNext, .carry = static_cast<int32_t>(o)}
                    : RepeatedParameter{.kind = Kind::kSlice,
                                        .reversed = reversed(loop.reversed_outputs, o - carries)};
  }
  return out;
}

/// Whether each output of a loop's body is a tensor of its own that one of the kernels stores.
Decision stores_outputs_apart(const TensorProgram& body, const std::vector<Group>& groups) {
  std::set<TensorId> seen;
  for (const TensorId t : body.outputs) {
    const std::string& name = body.tensors[static_cast<size_t>(t)].name;
    if (!seen.insert(t).second) return Decision::forbid(name + " is an output twice");
    const bool stored = std::ranges::any_of(groups, [&](const Group& g) { return makes(g, t); });
    if (!stored) return Decision::forbid("no kernel stores " + name);
  }
  return Decision::allow();
}

}  // namespace

Result<ScheduledKernel> in_all_iterations(const TensorProgram& body, const RegionLoop& loop,
                                          const std::vector<Group>& groups,
                                          const std::vector<JoinMember>& members,
                                          const JoinEstimate& estimate, const std::string& name,
                                          const Target& target, bool resident) {
  if (Decision apart = stores_outputs_apart(body, groups); !apart)
    return unsupported(apart.reason());
  std::vector<std::vector<TensorId>> outputs;
  for (const Group& group : groups) outputs.push_back(group.outputs);
  return repeat_kernels(members, outputs, estimate, name, repeated_tensors(body, loop, groups),
                        loop.trips, target, resident);
}

namespace {

/// Error (kInvalidInput): a member reads what another one makes; in turns, what a later one makes.
Status check_reads(const TensorProgram& program, const PlannedKernel& kernel,
                   const std::vector<ScheduledKernel>& schedules, bool in_turns) {
  for (size_t m = 0; m < schedules.size(); ++m) {
    for (const TensorId t : schedules[m].parameters) {
      if (makes(kernel.members[m], t)) continue;
      for (size_t other = in_turns ? m + 1 : 0; other < kernel.members.size(); ++other) {
        if (makes(kernel.members[other], t))
          return invalid_input(
              kernel.name + ": a member reads " + program.tensors[static_cast<size_t>(t)].name +
              (in_turns ? ", which a later one makes" : ", which another one makes"));
      }
    }
  }
  return {};
}

/// The members in one launch of a CPU.
Result<ScheduledKernel> on_cpu(const TensorProgram& program, const PlannedKernel& kernel,
                               const std::vector<ScheduledKernel>& schedules, bool in_turns,
                               const Target& target) {
  WEFT_RETURN_IF_ERROR(check_reads(program, kernel, schedules, in_turns));
  std::vector<const ScheduledKernel*> members;
  std::vector<std::vector<TensorId>> outputs;
  for (size_t m = 0; m < schedules.size(); ++m) {
    if (Decision shares = can_share_launch(schedules[m]); !shares)
      return invalid_input(kernel.name + ": a member shares no launch: " + shares.reason());
    if (!in_turns && schedules[m].program.body.size() != 1)
      return invalid_input(kernel.name + ": the threads of a member wait for each other");
    members.push_back(&schedules[m]);
    outputs.push_back(kernel.members[m].outputs);
  }
  auto launch = in_turns ? join_on_cpu(members, outputs, kernel.name, target)
                         : pack_on_cpu(members, kernel.name, target);
  if (!launch.ok() && launch.error().code == ErrorCode::kUnsupported)
    return invalid_input(kernel.name + ": its members share no launch: " + launch.error().message);
  return launch;
}

/// The members of a kernel side by side. Errors (kInvalidInput) say why they cannot share it.
Result<ScheduledKernel> beside_each_other(const TensorProgram& program, const PlannedKernel& kernel,
                                          std::vector<ScheduledKernel> schedules,
                                          const Target& target) {
  if (!target.is_gpu()) return on_cpu(program, kernel, schedules, /*in_turns=*/false, target);
  for (const ScheduledKernel& schedule : schedules) {
    if (Decision alone = can_pack(schedule); !alone)
      return invalid_input(kernel.name + ": a member shares no launch: " + alone.reason());
  }
  WEFT_RETURN_IF_ERROR(check_reads(program, kernel, schedules, /*in_turns=*/false));
  std::vector<const ScheduledKernel*> members;
  for (const ScheduledKernel& s : schedules) members.push_back(&s);
  return pack_kernels(members, kernel.name, target);
}

/// Whether a member reads what another one makes.
bool depend_on_each_other(const TensorProgram& program, const PlannedKernel& kernel) {
  for (const Group& member : kernel.members) {
    for (const ExprId e : member.exprs) {
      bool depends = false;
      visit(program.exprs[static_cast<size_t>(e)].body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead || makes(member, s.symbol)) return;
        depends |= std::ranges::any_of(kernel.members,
                                       [&](const Group& other) { return makes(other, s.symbol); });
      });
      if (depends) return true;
    }
  }
  return false;
}

/// The members one after another, on a cluster on so many blocks, as a composition says. Errors
/// (kInvalidInput) say why they cannot share a launch.
Result<ScheduledKernel> one_after_another(const TensorProgram& program, const PlannedKernel& kernel,
                                          const std::vector<ScheduledKernel>& schedules,
                                          const Target& target, const Composition& as) {
  if (!target.is_gpu()) return on_cpu(program, kernel, schedules, /*in_turns=*/true, target);
  WEFT_ASSIGN_OR_RETURN(const std::vector<JoinMember> members,
                        members_in_turns(kernel.members, schedules, kernel.name, target));
  auto joined = [&]() -> Result<ScheduledKernel> {
    WEFT_ASSIGN_OR_RETURN(JoinEstimate estimate, kernel.loop
                                                     ? estimate_iteration(program, members, target)
                                                     : estimate_join(members, target));
    if (as.cluster_blocks > 0) estimate.blocks = as.cluster_blocks;
    if (kernel.loop) {
      return in_all_iterations(program, *kernel.loop, kernel.members, members, estimate,
                               kernel.name, target, as.resident);
    }
    std::vector<std::vector<TensorId>> outputs;
    for (const Group& member : kernel.members) outputs.push_back(member.outputs);
    const std::vector<TensorId> kept = kept_outputs(kernel);
    return join_kernels(
        members, outputs, estimate, kernel.name, target,
        {.keeps = !kernel.rereads, .ahead = !kernel.waits, .own = {kept.begin(), kept.end()}});
  }();
  if (!joined.ok() && joined.error().code == ErrorCode::kUnsupported)
    return invalid_input(kernel.name + ": its members share no launch: " + joined.error().message);
  if (!joined.ok()) return joined;
  for (const TensorId t : kept_outputs(kernel)) {
    if (std::ranges::find(joined->parameters, t) == joined->parameters.end()) continue;
    return invalid_input(kernel.name + ": not every block that reads " +
                         program.tensors[static_cast<size_t>(t)].name +
                         " has made it, so that it has to be stored");
  }
  return joined;
}

/// The loop that member `m` of a kernel is; null.
const LoopMember* loop_at(const PlannedKernel& kernel, size_t m) {
  const auto at = std::ranges::find(kernel.loops, m, &LoopMember::member);
  return at == kernel.loops.end() ? nullptr : &*at;
}

/// A loop as its body's plan has it. Error (kInvalidInput): why it is none.
Result<ScheduledKernel> loop_kernel(const TensorProgram& program, const PlannedKernel& kernel,
                                    const LoopMember& loop) {
  auto whole = whole_loop(program, loop.opaque, *loop.body);
  if (!whole.ok()) return invalid_input(kernel.name + ": " + whole.error().message);
  return std::move(whole->kernel);
}

/// The members in one launch, each as it is best.
Result<ScheduledKernel> schedule_members(const TensorProgram& program, const PlannedKernel& kernel,
                                         const Target& target) {
  const bool in_turns =
      kernel.loop || !kernel.loops.empty() || depend_on_each_other(program, kernel);
  std::vector<ScheduledKernel> schedules;
  for (size_t m = 0; m < kernel.members.size(); ++m) {
    const Group& member = kernel.members[m];
    if (const LoopMember* loop = loop_at(kernel, m)) {
      WEFT_ASSIGN_OR_RETURN(schedules.emplace_back(), loop_kernel(program, kernel, *loop));
      continue;
    }
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel schedule,
                          schedule_group(program, member, target, kernel.name));
    const auto shares = in_turns ? joinable : packable;
    WEFT_ASSIGN_OR_RETURN(schedule, shares(program, member, kernel.name, target, schedule));
    schedules.push_back(std::move(schedule));
  }
  if (in_turns) return one_after_another(program, kernel, schedules, target, {});
  return beside_each_other(program, kernel, std::move(schedules), target);
}

/// The device, or the cluster of it, on which the members were composed.
Result<Target> composed_for(const PlannedKernel& kernel, const Composition& composition,
                            const Target& target) {
  if (composition.cluster_blocks == 0) return target;
  const std::optional<Target> device = cluster_device(target);
  if (device && composition.cluster_blocks <= device->cluster_blocks) return *device;
  return invalid_input(kernel.name + ": a cluster of " +
                       std::to_string(composition.cluster_blocks) + " blocks, " + target.name +
                       " has " +
                       (device ? "up to " + std::to_string(device->cluster_blocks) : "none"));
}

/// The members in one launch, as they were composed.
Result<ScheduledKernel> build_members(const TensorProgram& program, const PlannedKernel& kernel,
                                      const Composition& composition, const Target& target) {
  if (composition.members.size() != kernel.members.size())
    return invalid_input(kernel.name + " is composed of " +
                         std::to_string(composition.members.size()) + " members, and has " +
                         std::to_string(kernel.members.size()));
  const bool in_turns = composition.kind != Composition::Kind::kPack;
  WEFT_ASSIGN_OR_RETURN(const Target device, composed_for(kernel, composition, target));
  const Target apart = in_turns ? device : without_waiting(target);
  std::vector<ScheduledKernel> schedules;
  for (size_t m = 0; m < kernel.members.size(); ++m) {
    ScheduledKernel& schedule = schedules.emplace_back();
    if (const LoopMember* loop = loop_at(kernel, m)) {
      WEFT_ASSIGN_OR_RETURN(schedule, loop_kernel(program, kernel, *loop));
      if (schedule.composition == composition.members[m]) continue;
      return invalid_input(kernel.name + ": a loop among its members is composed as " +
                           print(schedule.composition) + " in the plan of its region");
    }
    WEFT_ASSIGN_OR_RETURN(schedule, build_composition(program, kernel.members[m],
                                                      composition.members[m], apart, kernel.name));
  }
  if (in_turns) return one_after_another(program, kernel, schedules, device, composition);
  return beside_each_other(program, kernel, std::move(schedules), target);
}

}  // namespace

Result<ScheduledKernel> schedule_kernel(const TensorProgram& program, const PlannedKernel& kernel,
                                        const Target& target) {
  const bool is_chain = kernel.schedule.composition.kind == Composition::Kind::kChain;
  auto schedule = !kernel.members.empty() ? schedule_members(program, kernel, target)
                  : is_chain ? schedule_chain(program, kernel.group, target, kernel.name)
                             : schedule_group(program, kernel.group, target, kernel.name);
  if (schedule.ok()) estimate_traffic(*schedule);
  return schedule;
}

Result<ScheduledKernel> build_kernel(const TensorProgram& program, const PlannedKernel& kernel,
                                     const Composition& composition, const Target& target) {
  const bool shared = composition.has_members();
  if ((composition.kind == Composition::Kind::kRecur) != kernel.loop.has_value())
    return invalid_input(kernel.name + " is no loop's only kernel, and is composed as that");
  if (!shared && !kernel.members.empty())
    return invalid_input(kernel.name + " has members, and is composed as one group");
  return shared ? build_members(program, kernel, composition, target)
                : build_composition(program, kernel.group, composition, target, kernel.name);
}

}  // namespace weft

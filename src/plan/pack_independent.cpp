#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "plan/fusion_plan.h"
#include "schedule/gpu/pack_kernels.h"
#include "tile/check/fits.h"

namespace weft {

namespace {

constexpr size_t kReach = 512;  ///< steps of the order that a kernel may run earlier
constexpr int64_t kShareOfCache =
    32;  ///< of the second level: what runs earlier may make that much
constexpr size_t kMostMembers = 8;

/// A kernel that leaves most of the device idle. What it makes may wait for its readers.
bool is_small(const ScheduledKernel& kernel, const Target& target) {
  return can_pack(kernel) &&
         2 * busy_share(kernel.program.blocks.constant(), kernel.program.warps, target) <= 1 &&
         kernel.estimate.bytes_written * kShareOfCache <= target.l2_bytes;
}

/// The target for a kernel that shares its launch: no block waits for others.
Target without_waiting(Target target) {
  target.grid_barriers = false;
  target.cluster_blocks = 0;
  target.libraries.clear();
  return target;
}

/// The group's kernel for a launch that it shares: one whose blocks wait for each other gives that
/// up, for what its template says that it costs. Where no template holds the group then it stays as
/// it is, and shares none.
Result<ScheduledKernel> packable(const TensorProgram& program, const Group& group,
                                 const std::string& name, const Target& target,
                                 const ScheduledKernel& best) {
  if (can_pack(best)) return best;
  auto without = schedule_leaf(program, group, without_waiting(target), name);
  if (!without.ok() && without.error().code == ErrorCode::kUnsupported) return best;
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel, std::move(without));
  kernel.estimate.microseconds =
      best.estimate.microseconds + std::max(0.0, kernel.layout_us - best.layout_us);
  if (kernel.predicted_us) kernel.predicted_us = kernel.estimate.microseconds;
  return kernel;
}

/// Members of one launch, as long as the device holds all blocks at once and is not busy.
class Pack {
 public:
  Pack(const Target& target) : target_(target) {}

  bool takes(const ScheduledKernel& kernel) const {
    return members_.size() < kMostMembers && is_small(kernel, target_) && fits_beside(kernel);
  }
  /// `apart_us`: what it takes in a launch of its own.
  void add(int32_t number, ScheduledKernel kernel, double apart_us) {
    numbers.push_back(number);
    blocks_ += kernel.program.blocks.constant();
    apart_us_ += apart_us;
    members_.push_back(std::move(kernel));
  }
  Result<ScheduledKernel> together(const std::string& name) const {
    std::vector<const ScheduledKernel*> members;
    for (const ScheduledKernel& k : members_) members.push_back(&k);
    return pack_kernels(members, name, target_);
  }
  double saved_us(const ScheduledKernel& together) const {
    return apart_us_ - together.estimate.microseconds;
  }
  std::string reason(const ScheduledKernel& together) const {
    std::string blocks;
    for (const ScheduledKernel& k : members_)
      blocks += fmt::format("{}{}", blocks.empty() ? "" : " + ", k.program.blocks.constant());
    return fmt::format("independent, {} blocks on {} SMs, saves {:.1f} us", blocks,
                       target_.sm_count, saved_us(together));
  }

  std::vector<int32_t> numbers;  ///< of the members, in the plan

 private:
  /// Whether all blocks are on the device at once, each with the most that one of them needs, and
  /// leave it room. Warps that a narrower member leaves over compute copies: not of what the block
  /// keeps in its arena, which they would write, too.
  bool fits_beside(const ScheduledKernel& kernel) const {
    constexpr int64_t kOperandRegisters = 48;  // of products: on their way to the arithmetic
    Residency most = residency(kernel.program, kernel.scopes, target_);
    int64_t least_warps = kernel.program.warps, most_warps = least_warps,
            arena = kernel.scopes.block_bytes;
    for (const ScheduledKernel& k : members_) {
      const Residency own = residency(k.program, k.scopes, target_);
      most.threads = std::max(most.threads, own.threads);
      most.registers = std::max(most.registers, own.registers);
      most.shared_bytes = std::max(most.shared_bytes, own.shared_bytes);
      least_warps = std::min(least_warps, k.program.warps);
      most_warps = std::max(most_warps, k.program.warps);
      arena = std::max(arena, k.scopes.block_bytes);
    }
    if (most_warps != least_warps && arena > 0) return false;
    const int64_t registers =
        std::min<int64_t>(most.registers + kOperandRegisters, target_.registers_per_thread);
    const int64_t blocks = blocks_ + kernel.program.blocks.constant();
    return busy_share(blocks, most_warps, target_) <= 1 &&
           blocks <= target_.sm_count * resident_blocks_per_sm(target_, most.threads, registers,
                                                               most.shared_bytes);
  }

  const Target& target_;
  std::vector<ScheduledKernel> members_;
  int64_t blocks_ = 0;
  double apart_us_ = 0;
};

/// The steps of a plan by what they read and make.
class StepOrder {
 public:
  StepOrder(const TensorProgram& program, const FusionPlan& plan) : program_(program), plan_(plan) {
    made_at_.assign(program.tensors.size(), -1);
    for (size_t s = 0; s < plan.order.size(); ++s) {
      for (const TensorId t : made(plan.order[s])) place(t, s);
    }
  }

  /// Whether everything that a kernel reads is made before a position.
  bool ready(int32_t kernel, size_t position) const {
    const PlannedKernel& k = plan_.kernels[static_cast<size_t>(kernel)];
    return std::ranges::all_of(k.schedule.parameters, [&](TensorId t) {
      return std::ranges::find(k.group.outputs, t) != k.group.outputs.end() ||
             made_at_[static_cast<size_t>(t)] < static_cast<int64_t>(position);
    });
  }
  void move(int32_t kernel, size_t position) {
    for (const TensorId t : plan_.kernels[static_cast<size_t>(kernel)].group.outputs)
      place(t, position);
  }

 private:
  const std::vector<TensorId>& made(const FusionPlan::Step& step) const {
    return step.opaque ? program_.opaques[static_cast<size_t>(step.index)].results
                       : plan_.kernels[static_cast<size_t>(step.index)].group.outputs;
  }
  void place(TensorId t, size_t position) {
    made_at_[static_cast<size_t>(t)] = static_cast<int64_t>(position);
  }

  const TensorProgram& program_;
  const FusionPlan& plan_;
  std::vector<int64_t> made_at_;  ///< by tensor: its step's position; -1 for what is given
};

/// The union of the members, not scheduled yet.
PlannedKernel packed(const std::vector<PlannedKernel>& kernels,
                     const std::vector<int32_t>& members) {
  PlannedKernel out;
  out.name = kernels[static_cast<size_t>(members[0])].name;
  for (const int32_t k : members) {
    const PlannedKernel& member = kernels[static_cast<size_t>(k)];
    out.is_compute |= member.is_compute;
    for (const ExprId e : member.group.exprs) out.group.exprs.push_back(e);
    for (const TensorId t : member.group.outputs) out.group.outputs.push_back(t);
    out.members.push_back(member.group);
  }
  std::ranges::sort(out.group.exprs);
  const auto again = std::ranges::unique(out.group.exprs);
  out.group.exprs.erase(again.begin(), again.end());
  return out;
}

/// The members of a kernel in one launch. Errors (kInvalidInput) say why they cannot share it.
Result<ScheduledKernel> beside_each_other(const TensorProgram& program, const PlannedKernel& kernel,
                                          std::vector<ScheduledKernel> schedules,
                                          const Target& target) {
  for (size_t m = 0; m < schedules.size(); ++m) {
    if (Decision alone = can_pack(schedules[m]); !alone)
      return invalid_input(kernel.name + ": a member shares no launch: " + alone.reason());
    for (const TensorId t : schedules[m].parameters) {
      const auto makes = [&](const Group& g) {
        return std::ranges::find(g.outputs, t) != g.outputs.end();
      };
      if (!makes(kernel.members[m]) && makes(kernel.group))
        return invalid_input(kernel.name + ": a member reads " +
                             program.tensors[static_cast<size_t>(t)].name +
                             ", which another one makes");
    }
  }
  std::vector<const ScheduledKernel*> members;
  for (const ScheduledKernel& s : schedules) members.push_back(&s);
  return pack_kernels(members, kernel.name, target);
}

/// The members side by side, each as it is best.
Result<ScheduledKernel> schedule_members(const TensorProgram& program, const PlannedKernel& kernel,
                                         const Target& target) {
  std::vector<ScheduledKernel> schedules;
  for (const Group& member : kernel.members) {
    WEFT_ASSIGN_OR_RETURN(const ScheduledKernel best,
                          schedule_group(program, member, target, kernel.name));
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel schedule,
                          packable(program, member, kernel.name, target, best));
    schedules.push_back(std::move(schedule));
  }
  return beside_each_other(program, kernel, std::move(schedules), target);
}

/// The members side by side, as they were composed.
Result<ScheduledKernel> build_members(const TensorProgram& program, const PlannedKernel& kernel,
                                      const Composition& composition, const Target& target) {
  if (composition.members.size() != kernel.members.size())
    return invalid_input(kernel.name + " is composed of " +
                         std::to_string(composition.members.size()) + " members, and has " +
                         std::to_string(kernel.members.size()));
  const Target apart = without_waiting(target);
  std::vector<ScheduledKernel> schedules;
  for (size_t m = 0; m < kernel.members.size(); ++m) {
    WEFT_ASSIGN_OR_RETURN(
        ScheduledKernel schedule,
        build_composition(program, kernel.members[m], composition.members[m], apart, kernel.name));
    schedules.push_back(std::move(schedule));
  }
  return beside_each_other(program, kernel, std::move(schedules), target);
}

}  // namespace

Result<ScheduledKernel> schedule_kernel(const TensorProgram& program, const PlannedKernel& kernel,
                                        const Target& target) {
  auto schedule = kernel.members.empty()
                      ? schedule_group(program, kernel.group, target, kernel.name)
                      : schedule_members(program, kernel, target);
  if (schedule.ok()) estimate_traffic(*schedule);
  return schedule;
}

Result<ScheduledKernel> build_kernel(const TensorProgram& program, const PlannedKernel& kernel,
                                     const Composition& composition, const Target& target) {
  const bool packed = composition.kind == Composition::Kind::kPack;
  if (!packed && !kernel.members.empty())
    return invalid_input(kernel.name + " has members, and is composed as one group");
  auto schedule = packed
                      ? build_members(program, kernel, composition, target)
                      : build_composition(program, kernel.group, composition, target, kernel.name);
  if (schedule.ok()) estimate_traffic(*schedule);
  return schedule;
}

namespace {

class Packing {
 public:
  Packing(const TensorProgram& program, const Target& target, FusionPlan* plan)
      : program_(program),
        target_(target),
        plan_(*plan),
        order_(program, *plan),
        gone_(plan->order.size(), false),
        members_(plan->kernels.size()) {}

  Status run() {
    std::vector<FusionPlan::Step> steps;
    std::vector<PlannedKernel> kernels;
    for (size_t s = 0; s < plan_.order.size(); ++s) {
      if (gone_[s]) continue;
      steps.push_back(plan_.order[s]);
      if (steps.back().opaque) continue;
      WEFT_ASSIGN_OR_RETURN(PlannedKernel kernel, kernel_at(s));
      steps.back().index = static_cast<int32_t>(kernels.size());
      kernels.push_back(std::move(kernel));
    }
    plan_.kernels = std::move(kernels);
    plan_.order = std::move(steps);
    return {};
  }

 private:
  PlannedKernel& planned(int32_t k) { return plan_.kernels[static_cast<size_t>(k)]; }

  /// The kernel of a step, with those that join it.
  Result<PlannedKernel> kernel_at(size_t s) {
    const int32_t first = plan_.order[s].index;
    Pack pack(target_);
    std::vector<size_t> joined;
    for (size_t j = s + 1; j < plan_.order.size() && j <= s + kReach; ++j) {
      if (gone_[j] || plan_.order[j].opaque || !order_.ready(plan_.order[j].index, s)) continue;
      const int32_t later = plan_.order[j].index;
      if (pack.numbers.empty()) {
        WEFT_ASSIGN_OR_RETURN(const bool begun, join(&pack, first));
        if (!begun) break;
      }
      WEFT_ASSIGN_OR_RETURN(const bool joins, join(&pack, later));
      if (joins) joined.push_back(j);
    }
    if (joined.empty()) return std::move(planned(first));
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel schedule, pack.together(planned(first).name));
    if (pack.saved_us(schedule) <= 0) return std::move(planned(first));
    for (const size_t j : joined) {
      gone_[j] = true;
      order_.move(plan_.order[j].index, s);
    }
    PlannedKernel out = packed(plan_.kernels, pack.numbers);
    out.packed_because = pack.reason(schedule);
    out.schedule = std::move(schedule);
    return out;
  }

  Result<bool> join(Pack* pack, int32_t number) {
    PlannedKernel& kernel = planned(number);
    if (kernel.is_call) return false;
    std::optional<ScheduledKernel>& member = members_[static_cast<size_t>(number)];
    if (!member) {
      WEFT_ASSIGN_OR_RETURN(
          member, packable(program_, kernel.group, kernel.name, target_, kernel.schedule));
    }
    if (!pack->takes(*member)) return false;
    pack->add(number, *member, kernel.schedule.estimate.microseconds);
    return true;
  }

  const TensorProgram& program_;
  const Target& target_;
  FusionPlan& plan_;
  StepOrder order_;
  std::vector<bool> gone_;                               ///< by step: runs with an earlier one
  std::vector<std::optional<ScheduledKernel>> members_;  ///< by kernel, once it was asked for
};

}  // namespace

Status pack_independent(const TensorProgram& program, const Target& target, FusionPlan& plan) {
  if (!target.is_gpu()) return {};
  return Packing(program, target, &plan).run();
}

}  // namespace weft

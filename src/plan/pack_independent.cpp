#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "fmt/format.h"
#include "plan/fusion_plan.h"
#include "plan/launch_order.h"
#include "plan/schedule_members.h"
#include "plan/step_order.h"
#include "schedule/gpu/pack_kernels.h"
#include "tile/check/fits.h"

namespace weft {

namespace {

constexpr size_t kReach = 512;  ///< steps of the order between two kernels of a launch
constexpr size_t kMostMembers = 32;
/// Of the second level: what kernels that run earlier or later may keep waiting in it, where each
/// of them leaves it room for that; and what waits in all.
constexpr int64_t kShareOfCache = 4;

/// A kernel that leaves most of the device idle.
bool is_small(const ScheduledKernel& kernel, const Target& target) {
  return 2 * busy_share(kernel.program.blocks.constant(), kernel.program.warps, target) <= 1;
}

/// A kernel that may share a launch.
struct PackMember {
  ScheduledKernel kernel;
  bool computes = false;      ///< holds a product
  int64_t waiting_bytes = 0;  ///< of what other kernels make for it, or it for them
};

/// Members of one launch. What leaves most of the device idle runs beside others as long as the
/// device holds all blocks at once and is not busy. What memory bounds shares a launch at any size,
/// as an SM goes from one member's blocks to the next one's.
class Pack {
 public:
  /// `most_waiting`: bytes that may wait for all of its members.
  Pack(const Target& target, int64_t most_waiting) : target_(target), most_waiting_(most_waiting) {}

  bool takes(const PackMember& member) const {
    if (members_.size() >= kMostMembers || !can_pack(member.kernel) || !may_wait(member))
      return false;
    const Room room = room_with(member.kernel);
    return (all_small_ && is_small(member.kernel, target_) && fits_beside(room)) ||
           (!computes_ && !member.computes && keeps_busy(room));
  }
  /// `apart_us`: what it takes in a launch of its own.
  void add(const PackMember& member, double apart_us) {
    blocks_ += member.kernel.program.blocks.constant();
    waiting_bytes_ += member.waiting_bytes;
    cached_bytes_ += cached_bytes(member);
    all_small_ = all_small_ && is_small(member.kernel, target_);
    computes_ = computes_ || member.computes;
    apart_us_ += apart_us;
    members_.push_back(&member.kernel);
  }
  Result<ScheduledKernel> together(const std::string& name) const {
    return pack_kernels(members_, name, target_);
  }
  double saved_us(const ScheduledKernel& together) const {
    return apart_us_ - together.estimate.microseconds;
  }
  std::string reason(const ScheduledKernel& together) const {
    std::string blocks;
    for (const ScheduledKernel* k : members_)
      blocks += fmt::format("{}{}", blocks.empty() ? "" : " + ", k->program.blocks.constant());
    return fmt::format("independent, {} blocks on {} SMs, saves {:.1f} us", blocks,
                       target_.sm_count, saved_us(together));
  }

 private:
  /// What is too large for its share is not in the cache as it is.
  int64_t cached_bytes(const PackMember& member) const {
    return member.waiting_bytes * kShareOfCache > target_.l2_bytes ? 0 : member.waiting_bytes;
  }
  bool may_wait(const PackMember& member) const {
    return (cached_bytes_ + cached_bytes(member)) * kShareOfCache <= target_.l2_bytes &&
           waiting_bytes_ + member.waiting_bytes <= most_waiting_;
  }

  /// What a block of the launch needs, with one kernel more.
  struct Room {
    int64_t blocks = 0, least_warps = 0, most_warps = 0, arena_bytes = 0;
    int64_t per_sm = 0;  ///< blocks that an SM holds at once
  };
  Room room_with(const ScheduledKernel& kernel) const {
    const int64_t warps = kernel.program.warps;
    Room out{blocks_ + kernel.program.blocks.constant(), warps, warps, kernel.scopes.block_bytes};
    Residency most = residency(kernel.program, kernel.scopes, target_);
    for (const ScheduledKernel* k : members_) {
      const Residency own = residency(k->program, k->scopes, target_);
      most.threads = std::max(most.threads, own.threads);
      most.registers = std::max(most.registers, own.registers);
      most.shared_bytes = std::max(most.shared_bytes, own.shared_bytes);
      out.least_warps = std::min(out.least_warps, k->program.warps);
      out.most_warps = std::max(out.most_warps, k->program.warps);
      out.arena_bytes = std::max(out.arena_bytes, k->scopes.block_bytes);
    }
    const int64_t registers =
        std::min<int64_t>(most.registers + kOperandRegisters, target_.registers_per_thread);
    out.per_sm = resident_blocks_per_sm(target_, most.threads, registers, most.shared_bytes);
    return out;
  }

  /// Whether all blocks are on the device at once, each with the most that one of them needs, and
  /// leave it room. Warps that a narrower member leaves over compute copies: not of what the block
  /// keeps in its arena, which they would write, too.
  bool fits_beside(const Room& room) const {
    if (room.most_warps != room.least_warps && room.arena_bytes > 0) return false;
    return busy_share(room.blocks, room.most_warps, target_) <= 1 &&
           room.blocks <= target_.sm_count * room.per_sm;
  }

  /// Whether an SM holds as many threads of the launch as its share of the bandwidth asks for, and
  /// no member leaves some of them over.
  bool keeps_busy(const Room& room) const {
    return room.most_warps == room.least_warps &&
           busy_share(room.per_sm * target_.sm_count, room.most_warps, target_) >= 1;
  }

  const Target& target_;
  const int64_t most_waiting_;
  std::vector<const ScheduledKernel*> members_;
  int64_t blocks_ = 0, waiting_bytes_ = 0, cached_bytes_ = 0;
  bool all_small_ = true, computes_ = false;
  double apart_us_ = 0;
};

/// By kernel of a plan, once it was asked for.
using KnownMembers = std::vector<std::optional<PackMember>>;

/// Launches of a plan whose steps stand in some order. The plan stays as it is until they are put
/// into it.
class Packing {
 public:
  Packing(const TensorProgram& program, const Target& target, int64_t most_waiting,
          KnownMembers* members, FusionPlan* plan)
      : program_(program),
        target_(target),
        most_waiting_(most_waiting),
        plan_(*plan),
        order_(program, *plan),
        taken_(plan->order.size(), false),
        gone_(plan->order.size(), false),
        members_(*members) {}

  Status find() {
    for (size_t s = 0; s < plan_.order.size(); ++s) {
      if (!taken_[s] && !plan_.order[s].opaque) WEFT_RETURN_IF_ERROR(begin_at(s));
    }
    return {};
  }
  double saved_us() const { return saved_us_; }
  /// All steps by the launches that they are in, in the order of these.
  Launches launches() const {
    Launches out;
    for (size_t s = 0; s < plan_.order.size(); ++s) {
      const auto shared = steps_at_.find(s);
      if (!gone_[s]) out.push_back(shared == steps_at_.end() ? std::vector{s} : shared->second);
    }
    return out;
  }
  Status apply() {
    return replace_kernels(plan_, gone_, [&](size_t s) -> Result<PlannedKernel> {
      const auto launch = launches_.find(s);
      return std::move(launch == launches_.end() ? planned(s) : launch->second);
    });
  }

 private:
  PlannedKernel& planned(size_t step) {
    return plan_.kernels[static_cast<size_t>(plan_.order[step].index)];
  }

  /// The launch that the kernel of a step begins, with those that may run beside it: in the place
  /// of one of them, behind all that they read and before all that read them.
  Status begin_at(size_t s) {
    Pack pack(target_, most_waiting_);
    std::vector<size_t> steps;
    Gap gap = order_.gap(s);
    size_t place = s;
    const size_t end = std::min(plan_.order.size(), s + kReach + 1);
    for (size_t j = s + 1; j < end; ++j) {
      if (taken_[j] || plan_.order[j].opaque) continue;
      const Gap both = gap & order_.gap(j);
      const size_t at = both.holds(place) ? place : j;
      if (!both.holds(at) || reads(j, steps)) continue;
      if (steps.empty()) {
        WEFT_ASSIGN_OR_RETURN(const bool begun, join(&pack, s));
        if (!begun) return {};
        steps.push_back(s);
      }
      WEFT_ASSIGN_OR_RETURN(const bool joins, join(&pack, j));
      if (!joins) continue;
      steps.push_back(j);
      gap = both;
      place = at;
    }
    return steps.size() > 1 ? launch(pack, steps, place) : Status();
  }

  /// Builds the launch, and takes its kernels out of the order where that saves time.
  Status launch(const Pack& pack, const std::vector<size_t>& steps, size_t place) {
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel schedule, pack.together(planned(steps[0]).name));
    if (pack.saved_us(schedule) <= 0) return {};
    std::vector<int32_t> numbers;
    for (const size_t step : steps) {
      numbers.push_back(plan_.order[step].index);
      taken_[step] = true;
      gone_[step] = step != place;
      order_.move(step, place);
    }
    PlannedKernel out = united(plan_.kernels, numbers);
    out.packed_because = pack.reason(schedule);
    saved_us_ += pack.saved_us(schedule);
    out.schedule = std::move(schedule);
    launches_.emplace(place, std::move(out));
    steps_at_.emplace(place, steps);
    return {};
  }

  bool reads(size_t step, const std::vector<size_t>& makers) {
    return std::ranges::any_of(planned(step).schedule.parameters, [&](TensorId t) {
      return std::ranges::any_of(makers, [&](size_t maker) {
        const std::vector<TensorId>& made = planned(maker).group.outputs;
        return std::ranges::find(made, t) != made.end();
      });
    });
  }

  Result<bool> join(Pack* pack, size_t step) {
    PlannedKernel& kernel = planned(step);
    if (kernel.is_call || !kernel.loops.empty()) return false;
    std::optional<PackMember>& member = members_[static_cast<size_t>(plan_.order[step].index)];
    if (!member) {
      member.emplace();
      WEFT_ASSIGN_OR_RETURN(
          member->kernel, packable(program_, kernel.group, kernel.name, target_, kernel.schedule));
      member->computes = kernel.is_compute;
      member->waiting_bytes = std::max(waiting_bytes(kernel, true), waiting_bytes(kernel, false));
    }
    if (!pack->takes(*member)) return false;
    pack->add(*member, kernel.schedule.estimate.microseconds);
    return true;
  }

  /// Of what a kernel makes for others, or of what others make for it.
  int64_t waiting_bytes(const PlannedKernel& kernel, bool made) const {
    int64_t bytes = 0;
    for (const TensorId t : kernel.schedule.parameters) {
      const Tensor& tensor = program_.tensors[static_cast<size_t>(t)];
      const bool own = std::ranges::find(kernel.group.outputs, t) != kernel.group.outputs.end();
      if (own != made || tensor.kind != Tensor::Kind::kIntermediate || tensor.is_output) continue;
      bytes += element_count(tensor.type.shape).value_or(0) * byte_size(tensor.type.dtype);
    }
    return bytes;
  }

  const TensorProgram& program_;
  const Target& target_;
  const int64_t most_waiting_;  ///< bytes that may wait for a launch
  FusionPlan& plan_;
  StepOrder order_;
  std::vector<bool> taken_;                         ///< by step: in a launch
  std::vector<bool> gone_;                          ///< by step: runs at that launch's place
  std::map<size_t, PlannedKernel> launches_;        ///< by place
  std::map<size_t, std::vector<size_t>> steps_at_;  ///< by place: its steps
  KnownMembers& members_;
  double saved_us_ = 0;
};

/// Puts the launches into the plan, in this order of them: as they are, each at its place.
Status put(Packing& packing, const Launches& ordered, FusionPlan& plan) {
  std::map<size_t, size_t> number;  // by a step of each launch as it stands
  for (const std::vector<size_t>& steps : packing.launches())
    number.emplace(steps[0], number.size());
  WEFT_RETURN_IF_ERROR(packing.apply());
  std::vector<FusionPlan::Step> order;
  for (const std::vector<size_t>& steps : ordered) order.push_back(plan.order[number.at(steps[0])]);
  plan.order = std::move(order);
  return {};
}

/// The part of the second-level cache below which it does not matter what lives longer.
constexpr int64_t kFreeOfCache = 16;

/// The launches that are found where the steps stand in rounds, each as late as it may be. Whether
/// they save more than those that were found before; only then they are in the plan.
Result<bool> pack_in_rounds(const TensorProgram& program, const Target& target,
                            const Packing& as_planned, KnownMembers& members, FusionPlan& plan) {
  const std::vector<size_t> rounds = order_in_rounds(program, plan, [&](size_t s) {
    if (plan.order[s].opaque) return false;
    const PlannedKernel& kernel = plan.kernels[static_cast<size_t>(plan.order[s].index)];
    const bool is_leaf = kernel.members.empty() && !kernel.is_call && !kernel.schedule.library &&
                         kernel.schedule.program.blocks.is_const();
    return is_leaf && (!kernel.is_compute || is_small(kernel.schedule, target));
  });
  const Launches before = as_planned.launches();
  const int64_t most = std::max(most_alive(program, plan, before), target.l2_bytes / kFreeOfCache);
  std::vector<FusionPlan::Step> order;
  for (const size_t s : rounds) order.push_back(plan.order[s]);
  std::swap(plan.order, order);
  // What is too large for the cache may wait as long as no more is alive at once for it.
  for (const int64_t most_waiting : {std::numeric_limits<int64_t>::max(), target.l2_bytes}) {
    Packing packing(program, target, most_waiting, &members, &plan);
    WEFT_RETURN_IF_ERROR(packing.find());
    if (packing.saved_us() <= as_planned.saved_us()) continue;
    const Launches ordered = order_as_needed(program, plan, packing.launches(), rounds);
    if (most_alive(program, plan, ordered) > most) continue;
    WEFT_RETURN_IF_ERROR(put(packing, ordered, plan));
    return true;
  }
  plan.order = std::move(order);
  return false;
}

}  // namespace

Status pack_independent(const TensorProgram& program, const Target& target, FusionPlan& plan) {
  if (!target.is_gpu()) return {};
  KnownMembers members(plan.kernels.size());
  Packing as_planned(program, target, target.l2_bytes, &members, &plan);
  WEFT_RETURN_IF_ERROR(as_planned.find());
  WEFT_ASSIGN_OR_RETURN(const bool in_rounds,
                        pack_in_rounds(program, target, as_planned, members, plan));
  return in_rounds ? Status() : as_planned.apply();
}

}  // namespace weft

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "plan/fusion_plan.h"
#include "plan/schedule_members.h"
#include "plan/step_order.h"
#include "schedule/gpu/join_kernels.h"

namespace weft {

namespace {

constexpr size_t kReach = 96;  ///< steps of the order that a kernel may run earlier
constexpr size_t kMostMembers = 96;
/// Warps of blocks that kernels are put on where those that they have leave others no room: any
/// number, then so few that an SM holds several blocks of many registers.
constexpr std::array<int64_t, 3> kMostWarps = {32, 8, 4};
/// Of the second level: what one launch may make, all of which lives as long as it runs.
constexpr int64_t kShareOfCache = 4;

/// Kernels in one launch, in the order in which they joined it.
struct Subprogram {
  std::vector<size_t> steps;    ///< positions in the order
  std::vector<int64_t> levels;  ///< of barriers before each
  size_t width = 0;  ///< of kMostWarps: rows have no more, so that an SM holds more blocks
  JoinEstimate estimate;
  int64_t made_bytes = 0;
};

class Joining {
 public:
  Joining(const TensorProgram& program, const Target& target, Joins joins, FusionPlan* plan)
      : program_(program),
        target_(target),
        fewest_(joins == Joins::kFewest),
        plan_(*plan),
        order_(program, *plan),
        gone_(plan->order.size(), false),
        facts_(plan->kernels.size()) {}

  Status run() {
    return replace_kernels(plan_, gone_, [&](size_t s) { return kernel_at(s); });
  }

 private:
  PlannedKernel& planned(size_t step) {
    return plan_.kernels[static_cast<size_t>(plan_.order[step].index)];
  }

  /// A kernel on its way into launches.
  struct Facts {
    bool asked = false;
    std::optional<JoinMember> member;      ///< as it joins them
    std::optional<ScheduledKernel> other;  ///< what that refers to, where it is not the plan's
    struct Narrow {
      bool asked = false;
      std::optional<ScheduledKernel> kernel;
      std::optional<JoinMember> member;
    };
    std::array<Narrow, kMostWarps.size()> narrow;  ///< by width; empty: as the member is
  };

  /// What is known of a kernel once it was asked for; no member where it cannot join.
  Facts& facts(size_t step) {
    Facts& of = facts_[static_cast<size_t>(plan_.order[step].index)];
    if (of.asked) return of;
    of.asked = true;
    const PlannedKernel& kernel = planned(step);
    const ScheduledKernel& best = kernel.schedule;
    if (kernel.is_call || !kernel.members.empty() || best.library || !best.orders.empty())
      return of;
    if (!can_join(best)) {
      auto other = joinable(program_, kernel.group, kernel.name, target_, best);
      if (!other.ok() || !can_join(*other)) return of;
      of.other = std::move(*other);
    }
    of.member = member_of(kernel, of.other ? *of.other : best);
    return of;
  }
  const JoinMember& member_at(size_t step, size_t width) {
    Facts& of = facts(step);
    Facts::Narrow& narrow = of.narrow[width];
    if (!narrow.asked && width > 0) {
      narrow.asked = true;
      const PlannedKernel& kernel = planned(step);
      narrow.kernel =
          on_fewer_warps(program_, kernel.group, target_, *of.member->kernel, kMostWarps[width]);
      if (narrow.kernel) narrow.member = member_of(kernel, *narrow.kernel);
    }
    return narrow.member ? *narrow.member : *of.member;
  }
  JoinMember member_of(const PlannedKernel& kernel, const ScheduledKernel& schedule) const {
    JoinMember member = join_member(schedule, target_);
    member.computes = kernel.is_compute;
    member.apart_us = kernel.schedule.estimate.microseconds;
    return member;
  }

  std::vector<JoinMember> members_of(const Subprogram& sub, size_t width) {
    std::vector<JoinMember> members;
    for (size_t m = 0; m < sub.steps.size(); ++m) {
      members.push_back(member_at(sub.steps[m], width));
      members.back().level = sub.levels[m];
    }
    return members;
  }

  /// Barriers before a kernel that joins; nothing where it reads what is not made by then.
  std::optional<int64_t> level(size_t step, size_t first, const Subprogram& sub) {
    const PlannedKernel& kernel = planned(step);
    int64_t level = 0;
    for (const TensorId t : kernel.schedule.parameters) {
      if (std::ranges::find(kernel.group.outputs, t) != kernel.group.outputs.end()) continue;
      const int64_t made = order_.made_at(t);
      if (made < static_cast<int64_t>(first)) continue;
      const auto maker = std::ranges::find(sub.steps, static_cast<size_t>(made));
      if (maker == sub.steps.end()) return std::nullopt;
      const auto m = static_cast<size_t>(maker - sub.steps.begin());
      level = std::max(level, sub.levels[m] + 1);
    }
    return level;
  }

  /// The kernel of a step, with those that join it: breadth-first, as long as it saves time and
  /// each product's tiles are on the device at once.
  Result<PlannedKernel> kernel_at(size_t s) {
    Subprogram sub;
    if (!facts(s).member) return std::move(planned(s));
    sub.steps.push_back(s);
    sub.levels.push_back(0);
    sub.made_bytes = planned(s).schedule.estimate.bytes_written;
    for (size_t j = s + 1; j < plan_.order.size() && j <= s + kReach; ++j) {
      if (sub.steps.size() == kMostMembers) break;
      if (gone_[j] || plan_.order[j].opaque || !facts(j).member) continue;
      const auto at = level(j, s, sub);
      if (at) try_join(j, *at, &sub);
    }
    while (sub.steps.size() > 1 && is_worth_it(sub)) {
      auto joined = together(sub);
      if (joined.ok()) {
        for (const size_t j : sub.steps) {
          gone_[j] = true;
          order_.move(j, s);
        }
        return joined;
      }
      if (joined.error().code != ErrorCode::kUnsupported) return joined;
      sub.steps.pop_back();
      sub.levels.pop_back();
      auto estimate = estimate_join(members_of(sub, sub.width), target_);
      if (!estimate.ok()) break;
      sub.estimate = *estimate;
    }
    return std::move(planned(s));
  }

  /// Kernels that wait for each other hold the device: a launch that is hardly quicker is left.
  bool is_worth_it(const Subprogram& sub) const {
    constexpr double kWorthWaiting = 0.05;
    const double together = sub.estimate.microseconds;
    return fewest_ || sub.estimate.saved_us >= kWorthWaiting * (together + sub.estimate.saved_us);
  }

  void try_join(size_t step, int64_t level, Subprogram* sub) {
    const int64_t bytes = sub->made_bytes + planned(step).schedule.estimate.bytes_written;
    if (bytes * kShareOfCache > target_.l2_bytes) return;
    sub->steps.push_back(step);
    sub->levels.push_back(level);
    // As they are, then narrower, then wider again.
    for (size_t turn = 0; turn < kMostWarps.size(); ++turn) {
      const size_t width = (sub->width + turn) % kMostWarps.size();
      const auto estimate = estimate_if_fits(members_of(*sub, width), sub->estimate.saved_us);
      if (!estimate) continue;
      sub->width = width;
      sub->estimate = *estimate;
      sub->made_bytes = bytes;
      return;
    }
    sub->steps.pop_back();
    sub->levels.pop_back();
  }

  /// Nothing where they save too little, or a product's tiles are not on the device at once.
  std::optional<JoinEstimate> estimate_if_fits(const std::vector<JoinMember>& members,
                                               double saved_us) const {
    const auto estimate = estimate_join(members, target_);
    if (!estimate.ok() || estimate->saved_us <= (fewest_ ? 0 : saved_us)) return std::nullopt;
    const bool at_once = std::ranges::all_of(
        members, [&](const JoinMember& m) { return !m.computes || m.items <= estimate->blocks; });
    return at_once ? std::optional(*estimate) : std::nullopt;
  }

  Result<PlannedKernel> together(const Subprogram& sub) {
    const std::vector<JoinMember> joined = members_of(sub, sub.width);
    std::vector<size_t> by_level(joined.size());
    std::iota(by_level.begin(), by_level.end(), 0);
    std::ranges::sort(by_level, {}, [&](size_t m) { return std::pair(joined[m].level, m); });
    std::vector<int32_t> numbers;
    std::vector<JoinMember> members;
    std::vector<std::vector<TensorId>> outputs;
    for (const size_t m : by_level) {
      numbers.push_back(plan_.order[sub.steps[m]].index);
      members.push_back(joined[m]);
      outputs.push_back(planned(sub.steps[m]).group.outputs);
    }
    PlannedKernel out = united(plan_.kernels, numbers);
    WEFT_ASSIGN_OR_RETURN(out.schedule,
                          join_kernels(members, outputs, sub.estimate, out.name, target_));
    out.packed_because =
        fmt::format("{} kernels in {} phases, {} blocks of which an SM holds {}, saves {:.1f} us",
                    members.size(), sub.estimate.phases, sub.estimate.blocks, sub.estimate.per_sm,
                    sub.estimate.saved_us);
    return out;
  }

  const TensorProgram& program_;
  const Target& target_;
  const bool fewest_;
  FusionPlan& plan_;
  StepOrder order_;
  std::vector<bool> gone_;    ///< by step: runs with an earlier one
  std::vector<Facts> facts_;  ///< by kernel
};

}  // namespace

Status join_dependent(const TensorProgram& program, const Target& target, Joins joins,
                      FusionPlan& plan) {
  if (joins == Joins::kNo || !target.is_gpu() || !target.grid_barriers) return {};
  return Joining(program, target, joins, &plan).run();
}

}  // namespace weft

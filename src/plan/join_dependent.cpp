#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "cost/estimate.h"
#include "cost/gpu_latency.h"
#include "fmt/format.h"
#include "group/group_key.h"
#include "plan/cluster_kernels.h"
#include "plan/few_kernels.h"
#include "plan/fusion_plan.h"
#include "plan/loop_member.h"
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
/// Of a tensor for whose sake kernels change their boxes.
constexpr int64_t kWorthKeeping = 4096;
constexpr double kAnyLoss = -1e9;  ///< of time that a launch saves
/// Of the second level: what one launch may make, all of which lives as long as it runs.
constexpr int64_t kShareOfCache = 4;

/// A kernel, or a loop of one, on its way into launches.
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

/// The device, or one cluster of it, and what is known of each step there.
struct Side {
  const Target& target;
  std::vector<Facts> facts;
};

/// Kernels in one launch, in the order in which they joined it.
struct Subprogram {
  Side* side = nullptr;
  std::vector<size_t> steps;    ///< positions in the order
  std::vector<int64_t> levels;  ///< of barriers before each
  size_t width = 0;  ///< of kMostWarps: rows have no more, so that an SM holds more blocks
  JoinEstimate estimate;
  int64_t made_bytes = 0;
  /// By step: kernels whose blocks have the boxes of others in the launch.
  std::map<size_t, ScheduledKernel> agreed;
  std::map<size_t, int64_t> kept_bytes;  ///< by step: that its blocks then have on chip
};

class Joining {
 public:
  Joining(const TensorProgram& program, const Target& target, const LaunchSharing& sharing,
          FusionPlan* plan)
      : program_(program),
        keys_(program),
        fewest_(sharing.joins == Joins::kFewest),
        memory_(sharing.memory),
        on_cluster_(sharing.on_cluster),
        plan_(*plan),
        order_(program, *plan),
        gone_(plan->order.size(), false),
        loops_(plan->order.size()),
        readers_(program.tensors.size()),
        leaves_(program.tensors.size(), false) {
    const size_t steps = plan->order.size();
    if (sharing.on_grid && target.grid_barriers)
      sides_.push_back({target, std::vector<Facts>(steps)});
    if (on_cluster_ != nullptr)
      sides_.push_back({on_cluster_->device(), std::vector<Facts>(steps)});
    for (size_t s = 0; s < plan->order.size(); ++s) {
      const FusionPlan::Step& step = plan->order[s];
      const auto& reads = step.opaque ? program.opaques[static_cast<size_t>(step.index)].operands
                                      : planned(s).schedule.parameters;
      for (const TensorId t : reads) readers_[static_cast<size_t>(t)].push_back(s);
    }
    for (const TensorId t : program.outputs) leaves_[static_cast<size_t>(t)] = true;
  }

  Status run() {
    const auto kernel_at = [&](size_t s) -> Result<PlannedKernel> {
      WEFT_ASSIGN_OR_RETURN(std::optional<PlannedKernel> launch, launch_at(s));
      return launch ? std::move(*launch) : std::move(planned(s));
    };
    return replace_kernels(plan_, gone_, kernel_at, [&](size_t s) { return launch_at(s); });
  }

 private:
  PlannedKernel& planned(size_t step) {
    return plan_.kernels[static_cast<size_t>(plan_.order[step].index)];
  }

  RegionPlans& regions_at(size_t step) {
    return plan_.regions[static_cast<size_t>(plan_.order[step].index)];
  }
  /// What a step that may join makes.
  const Group& group_at(size_t step) {
    return loop_at(step) ? loop_at(step)->group : planned(step).group;
  }
  const ScheduledKernel& schedule_at(size_t step) {
    return loop_at(step) ? loop_at(step)->kernel : planned(step).schedule;
  }

  /// The loop that one kernel runs; null.
  const WholeLoop* loop_at(size_t step) {
    if (!plan_.order[step].opaque) return nullptr;
    std::optional<WholeLoop>& known = loops_[step];
    if (!known && runs_whole_loop(regions_at(step))) {
      auto loop = whole_loop(program_, plan_.order[step].index, *regions_at(step)[0]);
      if (loop.ok() && can_join(loop->kernel)) known = std::move(*loop);
    }
    return known ? &*known : nullptr;
  }

  /// What is known of a step once it was asked for; no member where it cannot join.
  Facts& facts(Side& side, size_t step) {
    Facts& of = side.facts[step];
    if (of.asked) return of;
    of.asked = true;
    if (const WholeLoop* loop = loop_at(step)) {
      // What was cut for the whole device takes many turns on a cluster.
      if (loop->kernel.program.one_cluster || !side.target.one_cluster)
        of.member = join_member(loop->kernel, side.target);
    } else if (!plan_.order[step].opaque) {
      note_kernel(side, planned(step), of);
    }
    return of;
  }
  void note_kernel(const Side& side, const PlannedKernel& kernel, Facts& of) {
    const ScheduledKernel& best = kernel.schedule;
    if (kernel.is_call || !kernel.members.empty() || best.library || !best.orders.empty()) return;
    if (side.target.one_cluster) {
      of.other = on_cluster(kernel);
      if (!of.other) return;
    } else if (!can_join(best)) {
      auto other = joinable(program_, kernel.group, kernel.name, side.target, best);
      if (!other.ok() || !can_join(*other)) return;
      of.other = std::move(*other);
    }
    of.member = member_of(side, kernel, of.other ? *of.other : best);
  }
  /// As it is best on so few multiprocessors; nothing where their share of the rates alone takes
  /// longer than the whole device does.
  std::optional<ScheduledKernel> on_cluster(const PlannedKernel& kernel) {
    const Estimate& e = kernel.schedule.estimate;
    const double least = roofline_us(e.bytes_read + e.bytes_written, 0, on_cluster_->device());
    if (least >= e.microseconds) return std::nullopt;
    auto found = on_cluster_->find(program_, keys_, kernel.group, kernel.name);
    return found && can_join(*found) ? std::move(found) : std::nullopt;
  }
  const JoinMember& member_at(Side& side, size_t step, size_t width) {
    Facts& of = facts(side, step);
    Facts::Narrow& narrow = of.narrow[width];
    if (!narrow.asked && width > 0 && !of.member->is_loop) {
      narrow.asked = true;
      const PlannedKernel& kernel = planned(step);
      narrow.kernel = on_fewer_warps(program_, kernel.group, side.target, *of.member->kernel,
                                     kMostWarps[width]);
      if (narrow.kernel) narrow.member = member_of(side, kernel, *narrow.kernel);
    }
    return narrow.member ? *narrow.member : *of.member;
  }
  static JoinMember member_of(const Side& side, const PlannedKernel& kernel,
                              const ScheduledKernel& schedule) {
    JoinMember member = join_member(schedule, side.target);
    member.computes = kernel.is_compute;
    member.apart_us = kernel.schedule.estimate.microseconds;
    return member;
  }

  std::vector<JoinMember> members_of(const Subprogram& sub, size_t width) {
    std::vector<JoinMember> members;
    for (size_t m = 0; m < sub.steps.size(); ++m) {
      const auto agreed = sub.agreed.find(sub.steps[m]);
      members.push_back(agreed == sub.agreed.end()
                            ? member_at(*sub.side, sub.steps[m], width)
                            : member_of(*sub.side, planned(sub.steps[m]), agreed->second));
      members.back().level = sub.levels[m];
      const auto kept = sub.kept_bytes.find(sub.steps[m]);
      if (kept != sub.kept_bytes.end()) members.back().kept_bytes = kept->second;
    }
    return members;
  }

  // What stays on chip.

  int64_t bytes_of(TensorId t) const {
    const TensorType& type = program_.tensors[static_cast<size_t>(t)].type;
    return checked_byte_size(type.dtype, type.shape).value_or(0);
  }
  static bool has(const ScheduledKernel& kernel, TensorId t) {
    return std::ranges::find(kernel.parameters, t) != kernel.parameters.end();
  }

  /// Kernels that load or store a tensor are cut into equal boxes, the later one as the earlier one
  /// or the other way round, where that saves more than it costs.
  void agree(Subprogram* sub) {
    for (size_t later = 1; later < sub->steps.size(); ++later) {
      const std::vector<TensorId> tensors = schedule_at(sub->steps[later]).parameters;
      for (const TensorId t : tensors) {
        if (bytes_of(t) < kWorthKeeping || stores(sub->steps[later], t)) continue;
        for (size_t earlier = 0; earlier < sub->steps.size(); ++earlier) {
          const bool before = sub->levels[earlier] < sub->levels[later];
          if (before && has(schedule_at(sub->steps[earlier]), t) &&
              agree_on(sub, earlier, later, t)) {
            break;
          }
        }
      }
    }
  }
  bool stores(size_t step, TensorId t) {
    const std::vector<TensorId>& outputs = group_at(step).outputs;
    return std::ranges::find(outputs, t) != outputs.end();
  }

  bool agree_on(Subprogram* sub, size_t earlier, size_t later, TensorId t) {
    const std::vector<JoinMember> members = members_of(*sub, sub->width);
    const size_t first = sub->steps[earlier], second = sub->steps[later];
    BlocksOfLaunch launch{.blocks = sub->estimate.blocks, .warps = 1};
    for (const JoinMember& member : members)
      launch.warps = std::max(launch.warps, member.kernel->program.warps);
    std::optional<Subprogram> best;
    for (AgreeingKernels& like :
         in_equal_boxes(program_, {group_at(first), *members[earlier].kernel},
                        {group_at(second), *members[later].kernel}, t, launch, sub->side->target)) {
      Subprogram with = *sub;
      with.agreed.insert_or_assign(first, std::move(like.first));
      with.agreed.insert_or_assign(second, std::move(like.second));
      with.kept_bytes[second] += bytes_of(t);
      const auto estimate = estimate_if_fits(with, with.width, kAnyLoss);
      const double most = best ? best->estimate.microseconds : most_us(*sub);
      if (!estimate || estimate->microseconds > most) continue;
      with.estimate = *estimate;
      best = std::move(with);
    }
    if (!best) return false;
    *sub = std::move(*best);
    return true;
  }

  /// What a launch may take whose blocks keep more.
  double most_us(const Subprogram& sub) const {
    constexpr double kHardlyMore = 1.01;
    return sub.estimate.microseconds * (fewest_ ? kHardlyMore : 1);
  }

  /// What the launch stores and nothing else reads. Loops store all that they give.
  std::set<TensorId> own_outputs(const Subprogram& sub) {
    std::set<TensorId> out;
    for (const size_t step : sub.steps) {
      if (loop_at(step) != nullptr) continue;
      for (const TensorId t : planned(step).group.outputs) {
        const auto& readers = readers_[static_cast<size_t>(t)];
        const bool inside = std::ranges::all_of(readers, [&](size_t reader) {
          return std::ranges::find(sub.steps, reader) != sub.steps.end();
        });
        if (inside && !leaves_[static_cast<size_t>(t)]) out.insert(t);
      }
    }
    return out;
  }

  /// Barriers before a kernel that joins; nothing where it reads what is not made by then.
  std::optional<int64_t> level(size_t step, size_t first, const Subprogram& sub) {
    int64_t level = 0;
    for (const TensorId t : schedule_at(step).parameters) {
      if (stores(step, t)) continue;
      const int64_t made = order_.made_at(t);
      if (made < static_cast<int64_t>(first)) continue;
      const auto maker = std::ranges::find(sub.steps, static_cast<size_t>(made));
      if (maker == sub.steps.end()) return std::nullopt;
      const auto m = static_cast<size_t>(maker - sub.steps.begin());
      level = std::max(level, sub.levels[m] + 1);
    }
    return level;
  }

  /// The kernel of a step with those that join it, on the device or on a cluster of it, where more
  /// is saved. Nothing where none does.
  Result<std::optional<PlannedKernel>> launch_at(size_t s) {
    std::vector<Subprogram> launches;
    for (Side& side : sides_) {
      if (facts(side, s).member) launches.push_back(grown(side, s));
    }
    const auto saved_us = [&](size_t l) { return launches[l].estimate.saved_us; };
    if (launches.size() == 2 && saved_us(1) > saved_us(0)) std::swap(launches[0], launches[1]);
    for (Subprogram& sub : launches) {
      WEFT_ASSIGN_OR_RETURN(std::optional<PlannedKernel> launch, built(sub));
      if (!launch) continue;
      for (const size_t j : sub.steps) {
        gone_[j] = true;
        order_.move(j, s);
        if (plan_.order[j].opaque) regions_at(j).clear();
      }
      return std::move(launch);
    }
    return std::optional<PlannedKernel>();
  }

  /// The kernel of a step with those that join it: breadth-first, as long as it saves time and
  /// each product's tiles are on the device at once.
  Subprogram grown(Side& side, size_t s) {
    Subprogram sub;
    sub.side = &side;
    sub.steps.push_back(s);
    sub.levels.push_back(0);
    sub.made_bytes = schedule_at(s).estimate.bytes_written;
    for (size_t j = s + 1; j < plan_.order.size() && j <= s + kReach; ++j) {
      if (sub.steps.size() == kMostMembers) break;
      if (gone_[j] || !facts(side, j).member) continue;
      const auto at = level(j, s, sub);
      if (at) try_join(j, *at, &sub);
    }
    if (memory_.keeps) agree(&sub);
    return sub;
  }

  /// Nothing where it is not worth it, also with fewer kernels; `sub` has those that are left.
  Result<std::optional<PlannedKernel>> built(Subprogram& sub) {
    while (sub.steps.size() > 1 && (fewest_ || is_worth_it(sub, sub.estimate.saved_us))) {
      auto joined = together(sub);
      if (joined.ok()) return std::optional(std::move(*joined));
      if (joined.error().code != ErrorCode::kUnsupported) return joined.take_error();
      // Without the boxes that were agreed on, then without the last kernel, or half of them.
      if (sub.agreed.empty() || slower_) {
        const size_t kept = slower_ ? sub.steps.size() / 2 : sub.steps.size() - 1;
        sub.steps.resize(kept);
        sub.levels.resize(kept);
      }
      sub.agreed.clear();
      sub.kept_bytes.clear();
      auto estimate = estimate_join(members_of(sub, sub.width), sub.side->target);
      if (!estimate.ok()) break;
      sub.estimate = *estimate;
    }
    return std::optional<PlannedKernel>();
  }

  /// Kernels that wait for each other hold the device: a launch that is hardly quicker is left.
  /// Around a loop, whose blocks wait anyway, that is what launches and barriers take.
  bool is_worth_it(const Subprogram& sub, double saved_us) {
    constexpr double kWorthWaiting = 0.05;
    if (fewest_) return saved_us > -most_lost_us(sub.estimate);
    const bool loops =
        std::ranges::any_of(sub.steps, [&](size_t s) { return plan_.order[s].opaque; });
    if (loops) return saved_us >= worth_waiting_us(std::ssize(sub.steps), sub.side->target);
    return saved_us >= kWorthWaiting * (sub.estimate.microseconds + sub.estimate.saved_us);
  }

  /// What a launch may take longer than its kernels where these are to be few.
  static double most_lost_us(const JoinEstimate& estimate) {
    return kFewMayLose * std::max(0.0, estimate.microseconds + estimate.saved_us);
  }

  void try_join(size_t step, int64_t level, Subprogram* sub) {
    const int64_t bytes = sub->made_bytes + schedule_at(step).estimate.bytes_written;
    if (bytes * kShareOfCache > sub->side->target.l2_bytes) return;
    sub->steps.push_back(step);
    sub->levels.push_back(level);
    // As they are, then narrower, then wider again.
    for (size_t turn = 0; turn < kMostWarps.size(); ++turn) {
      const size_t width = (sub->width + turn) % kMostWarps.size();
      const auto estimate = estimate_if_fits(*sub, width, sub->estimate.saved_us);
      if (!estimate) continue;
      sub->width = width;
      sub->estimate = *estimate;
      sub->made_bytes = bytes;
      return;
    }
    sub->steps.pop_back();
    sub->levels.pop_back();
  }

  /// Nothing where they save too little, or a product's tiles are not on the device at once; a
  /// cluster, and who wants few kernels, take them in turns, which is priced.
  std::optional<JoinEstimate> estimate_if_fits(const Subprogram& sub, size_t width,
                                               double saved_us) {
    const std::vector<JoinMember> members = members_of(sub, width);
    const Target& target = sub.side->target;
    const auto estimate = estimate_join(members, target);
    if (!estimate.ok()) return std::nullopt;
    const double least = fewest_ ? -most_lost_us(*estimate) : saved_us;
    if (estimate->saved_us <= least) return std::nullopt;
    const bool loops = target.one_cluster || std::ranges::any_of(members, &JoinMember::is_loop);
    const bool at_once = std::ranges::all_of(members, [&](const JoinMember& m) {
      return loops || fewest_ || !m.computes || m.items <= estimate->blocks;
    });
    return at_once ? std::optional(*estimate) : std::nullopt;
  }

  Result<PlannedKernel> together(const Subprogram& sub) {
    slower_ = false;
    const std::vector<JoinMember> joined = members_of(sub, sub.width);
    std::vector<size_t> by_level(joined.size());
    std::iota(by_level.begin(), by_level.end(), 0);
    // Those beside a loop in front of it: its first barrier is the one behind them.
    std::ranges::sort(by_level, {},
                      [&](size_t m) { return std::tuple(joined[m].level, joined[m].is_loop, m); });
    std::vector<JoinMember> members;
    std::vector<std::vector<TensorId>> outputs;
    for (const size_t m : by_level) {
      members.push_back(joined[m]);
      outputs.push_back(group_at(sub.steps[m]).outputs);
    }
    PlannedKernel out = united_steps(sub, by_level);
    WEFT_ASSIGN_OR_RETURN(
        out.schedule,
        join_kernels(members, outputs, sub.estimate, out.name, sub.side->target,
                     {.keeps = memory_.keeps, .ahead = memory_.ahead, .own = own_outputs(sub)}));
    const std::set<TensorId> stored(out.schedule.parameters.begin(), out.schedule.parameters.end());
    std::erase_if(out.group.outputs, [&](TensorId t) { return stored.count(t) == 0; });
    slower_ = !fewest_ && out.loops.empty() && members.size() <= kMostWeighed &&
              is_slower(members, out.schedule, sub.side->target);
    if (slower_) return unsupported("its blocks take longer than the kernels");
    const double kept_us = sub.estimate.microseconds - out.schedule.estimate.microseconds;
    const double saved_us = sub.estimate.saved_us + kept_us;
    if (!out.loops.empty() && !is_worth_it(sub, saved_us))
      return unsupported("its barriers take longer than launches");
    const std::string loops =
        out.loops.empty() ? "" : fmt::format(", {} of them all steps of a loop", out.loops.size());
    const std::string blocks = sub.side->target.one_cluster
                                   ? fmt::format("{} blocks of one cluster", sub.estimate.blocks)
                                   : fmt::format("{} blocks of which an SM holds {}",
                                                 sub.estimate.blocks, sub.estimate.per_sm);
    out.packed_because = fmt::format("{} kernels in {} phases{}, {}, saves {:.1f} us",
                                     members.size(), sub.estimate.phases, loops, blocks, saved_us);
    return out;
  }

  /// Members of a launch that is weighed: larger ones take too long to build again.
  static constexpr size_t kMostWeighed = 16;
  /// By the evaluator `latency`, which sees what the estimate of a launch does not: members on
  /// blocks of other widths, and loops that wait.
  static bool is_slower(std::span<const JoinMember> members, const ScheduledKernel& together,
                        const Target& target) {
    constexpr double kSlower = 1.15;  // it is right within that for kernels that are built alike
    const auto latency = [&](const ScheduledKernel& kernel) {
      const int64_t bytes = kernel.estimate.bytes_read + kernel.estimate.bytes_written;
      return gpu_latency(kernel.program, kernel.scopes, bytes, target).microseconds;
    };
    double apart = 0;
    for (const JoinMember& member : members) apart += latency(*member.kernel);
    return latency(together) > kSlower * apart;
  }

  /// The kernel that the steps share, not scheduled yet; `order`: of the subprogram's steps.
  PlannedKernel united_steps(const Subprogram& sub, const std::vector<size_t>& order) {
    std::vector<Group> groups;
    std::vector<LoopMember> loops;
    std::string name;
    bool computes = false;
    for (const size_t m : order) {
      const size_t step = sub.steps[m];
      const bool loops_here = plan_.order[step].opaque;
      const PlannedKernel& kernel = loops_here ? regions_at(step)[0]->kernels[0] : planned(step);
      if (loops_here)
        loops.push_back({groups.size(), plan_.order[step].index, regions_at(step)[0]});
      groups.push_back(group_at(step));
      if (name.empty()) name = kernel.name;
      computes |= kernel.is_compute;
    }
    PlannedKernel out = united(std::move(name), std::move(groups));
    out.loops = std::move(loops);
    out.is_compute = computes;
    out.rereads = !memory_.keeps;
    out.waits = !memory_.ahead;
    return out;
  }

  const TensorProgram& program_;
  GroupKeys keys_;
  const bool fewest_;
  bool slower_ = false;  ///< why together() refused what it was asked for last
  const LaunchMemory memory_;
  ClusterKernels* const on_cluster_;  ///< null: none
  std::vector<Side> sides_;
  FusionPlan& plan_;
  StepOrder order_;
  std::vector<bool> gone_;                       ///< by step: runs with an earlier one
  std::vector<std::optional<WholeLoop>> loops_;  ///< by step
  std::vector<std::vector<size_t>> readers_;     ///< by tensor: steps, those that store it, too
  std::vector<bool> leaves_;                     ///< by tensor: an output of the program
};

}  // namespace

Status join_dependent(const TensorProgram& program, const Target& target,
                      const LaunchSharing& sharing, FusionPlan& plan) {
  if (sharing.joins == Joins::kNo || !target.is_gpu()) return {};
  return Joining(program, target, sharing, &plan).run();
}

}  // namespace weft

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "plan/cluster_kernels.h"
#include "plan/few_kernels.h"
#include "plan/fusion_plan.h"
#include "plan/schedule_members.h"
#include "schedule/gpu/repeat_kernels.h"
#include "support/rounding.h"
#include "tile/rewrite/reuse_boxes.h"

namespace weft {

std::optional<RegionLoop> loop_around(const TensorProgram& program, const OpaqueExpr& opaque) {
  const auto* scan = std::get_if<ScanAttrs>(&opaque.node.attrs);
  if (opaque.node.op != GraphOp::kScan || scan == nullptr) return std::nullopt;
  RegionLoop loop{.trips = 0,
                  .carries = scan->carry_count,
                  .scanned = scan->scanned_count,
                  .reversed_inputs = scan->x_reverse,
                  .reversed_outputs = scan->y_reverse};
  const auto carries = static_cast<size_t>(loop.carries);
  const TensorId along = loop.scanned > 0                  ? opaque.operands[carries]
                         : opaque.results.size() > carries ? opaque.results[carries]
                                                           : TensorId{-1};
  if (along < 0) return std::nullopt;
  const Shape shape = declared_type(program.tensors[static_cast<size_t>(along)]).shape;
  if (shape.empty() || shape[0] <= 0) return std::nullopt;
  loop.trips = shape[0];
  return loop;
}

namespace {

/// The kernels of a plan, those that share launches apart, in an order in which they may run.
struct Apart {
  std::vector<Group> groups;
  std::vector<ScheduledKernel> schedules;
  double microseconds = 0;  ///< as they are in the plan
};

Result<Apart> kernels_apart(const TensorProgram& body, const Target& target,
                            const FusionPlan& plan) {
  Apart out;
  for (const FusionPlan::Step& step : plan.order) {
    const PlannedKernel& kernel = plan.kernels[static_cast<size_t>(step.index)];
    out.microseconds += kernel.schedule.estimate.microseconds;
    if (kernel.is_call) return unsupported("a library runs " + kernel.name);
    const std::vector<Composition>& members = kernel.schedule.composition.members;
    for (size_t m = 0; m < std::max<size_t>(kernel.members.size(), 1); ++m) {
      const Group& group = kernel.members.empty() ? kernel.group : kernel.members[m];
      ScheduledKernel own = kernel.schedule;
      if (!kernel.members.empty()) {
        WEFT_ASSIGN_OR_RETURN(own, build_composition(body, group, members[m], target, kernel.name));
      }
      WEFT_ASSIGN_OR_RETURN(own, joinable(body, group, kernel.name, target, own));
      out.groups.push_back(group);
      out.schedules.push_back(std::move(own));
    }
  }
  return out;
}

/// Those between the same two barriers side by side.
Status sort_by_level(const std::string& name, const Target& target, Apart* apart) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<JoinMember> members,
                        members_in_turns(apart->groups, apart->schedules, name, target));
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t m) { return std::pair(members[m].level, m); });
  std::vector<Group> groups;
  std::vector<ScheduledKernel> schedules;
  for (const size_t m : order) {
    groups.push_back(std::move(apart->groups[m]));
    schedules.push_back(std::move(apart->schedules[m]));
  }
  apart->groups = std::move(groups);
  apart->schedules = std::move(schedules);
  return {};
}

/// The kernels as they are, or with rows on fewer warps, so that an SM holds more blocks: by what a
/// step is predicted to take.
Result<JoinEstimate> on_best_warps(const TensorProgram& body, const std::string& name,
                                   const Target& target, Apart* apart) {
  const auto estimated =
      [&](const std::vector<ScheduledKernel>& schedules) -> Result<JoinEstimate> {
    WEFT_ASSIGN_OR_RETURN(const std::vector<JoinMember> members,
                          members_in_turns(apart->groups, schedules, name, target));
    return estimate_iteration(body, members, target);
  };
  Result<JoinEstimate> best = estimated(apart->schedules);
  for (const int64_t warps : {8, 4}) {
    std::vector<ScheduledKernel> narrow = apart->schedules;
    for (size_t m = 0; m < narrow.size(); ++m) {
      auto other = on_fewer_warps(body, apart->groups[m], target, narrow[m], warps);
      if (other) narrow[m] = std::move(*other);
    }
    Result<JoinEstimate> own = estimated(narrow);
    if (!own.ok() || (best.ok() && own->microseconds >= best->microseconds)) continue;
    best = std::move(own);
    apart->schedules = std::move(narrow);
  }
  return best;
}

/// One launch of all iterations, on the device or on a cluster of it.
struct Repetition {
  const Target* target = nullptr;
  Apart apart;
  JoinEstimate estimate;  ///< of an iteration
  double microseconds = 0;
};

Result<Repetition> repetition(const TensorProgram& body, const RegionLoop& loop,
                              const std::string& name, const Target& target, Apart apart) {
  Repetition out{.target = &target, .apart = std::move(apart), .estimate = {}};
  WEFT_RETURN_IF_ERROR(sort_by_level(name, target, &out.apart));
  WEFT_ASSIGN_OR_RETURN(out.estimate, on_best_warps(body, name, target, &out.apart));
  out.microseconds = estimate_repetition(out.estimate, loop.trips, target);
  return out;
}

/// The same kernels as they are best on so few multiprocessors.
Result<Apart> on_cluster(const TensorProgram& body, const std::string& name,
                         ClusterKernels& clusters, Apart apart) {
  GroupKeys keys(body);
  for (size_t m = 0; m < apart.groups.size(); ++m) {
    auto kernel = clusters.find(body, keys, apart.groups[m], name);
    if (!kernel) return unsupported("a member is no leaf, which a cluster's are");
    apart.schedules[m] = std::move(*kernel);
  }
  return apart;
}

/// The members on no more warps than leave every multiprocessor an item of each; none where that is
/// as they are.
std::optional<std::vector<ScheduledKernel>> over_all_sms(const TensorProgram& body,
                                                         const Apart& apart, const Target& target) {
  std::vector<ScheduledKernel> out = apart.schedules;
  bool changed = false;
  for (size_t m = 0; m < out.size(); ++m) {
    const JoinMember member = join_member(out[m], target);
    const int64_t rows = member.items * out[m].program.warps;
    const int64_t warps = ceil_div(rows, static_cast<int64_t>(target.sm_count));
    if (warps >= out[m].program.warps) continue;
    auto other = on_fewer_warps(body, apart.groups[m], target, out[m], warps);
    if (!other) continue;
    out[m] = std::move(*other);
    changed = true;
  }
  return changed ? std::optional(std::move(out)) : std::nullopt;
}

/// The launch of all steps by these kernels; `resident`: that keeps on chip what all of them read.
Result<ScheduledKernel> all_steps(const TensorProgram& body, const RegionLoop& loop,
                                  const std::string& name, const Repetition& all,
                                  const std::vector<ScheduledKernel>& schedules, bool resident) {
  const Target& target = *all.target;
  WEFT_ASSIGN_OR_RETURN(const std::vector<JoinMember> members,
                        members_in_turns(all.apart.groups, schedules, name, target));
  WEFT_ASSIGN_OR_RETURN(const JoinEstimate estimate, estimate_iteration(body, members, target));
  return in_all_iterations(body, loop, all.apart.groups, members, estimate, name, target, resident);
}

/// The form of a launch of all steps that is predicted to take the least: reading again what they
/// have in common, or keeping it on chip.
Result<ScheduledKernel> best_form(const TensorProgram& body, const RegionLoop& loop,
                                  const std::string& name, const Repetition& all) {
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel best,
                        all_steps(body, loop, name, all, all.apart.schedules, false));
  const auto consider = [&](const std::vector<ScheduledKernel>& schedules) {
    auto other = all_steps(body, loop, name, all, schedules, true);
    if (other.ok() && other->estimate.microseconds <= best.estimate.microseconds)
      best = std::move(*other);
  };
  consider(all.apart.schedules);
  if (const auto narrow = over_all_sms(body, all.apart, *all.target)) consider(*narrow);
  return best;
}

Result<PlannedKernel> in_one_launch(const TensorProgram& body, const RegionLoop& loop,
                                    const FusionPlan& plan, const Repetition& all) {
  PlannedKernel out = united(plan.kernels[0].name, all.apart.groups);
  out.loop = loop;
  for (const PlannedKernel& kernel : plan.kernels) out.is_compute |= kernel.is_compute;
  WEFT_ASSIGN_OR_RETURN(out.schedule, best_form(body, loop, out.name, all));
  estimate_traffic(out.schedule);
  const TileProgram& program = out.schedule.program;
  const int64_t count = program.blocks.is_const() ? program.blocks.constant() : all.estimate.blocks;
  std::string blocks = all.target->one_cluster ? fmt::format("{} blocks of one cluster", count)
                                               : fmt::format("{} blocks of which an SM holds {}",
                                                             count, program.per_sm);
  if (out.schedule.composition.resident) {
    const BoxReuse kept = reuse_of(program, out.schedule.scopes);
    blocks += fmt::format(" and each keeps {} KB that all steps read", kept.kept_bytes / 1024);
  }
  const double in_turns = static_cast<double>(loop.trips) * all.apart.microseconds;
  out.packed_because = fmt::format("{} steps of {} kernels in {} phases, {}, saves {:.1f} us",
                                   loop.trips, all.apart.groups.size(), all.estimate.phases, blocks,
                                   in_turns - out.schedule.estimate.microseconds);
  return out;
}

Result<PlannedKernel> repeated(const TensorProgram& body, const RegionLoop& loop,
                               const Target& target, const FusionPlan& plan,
                               const LaunchSharing& sharing) {
  const std::string& name = plan.kernels[0].name;
  WEFT_ASSIGN_OR_RETURN(const Apart apart, kernels_apart(body, target, plan));
  std::vector<Repetition> launches;
  std::optional<Error> error;
  const auto add = [&](Result<Repetition> launch) {
    if (launch.ok()) {
      launches.push_back(std::move(*launch));
    } else if (!error) {
      error = launch.take_error();
    }
  };
  if (sharing.on_grid && target.grid_barriers) add(repetition(body, loop, name, target, apart));
  if (sharing.on_cluster != nullptr) {
    auto own = on_cluster(body, name, *sharing.on_cluster, apart);
    const Target& device = sharing.on_cluster->device();
    add(own.ok() ? repetition(body, loop, name, device, std::move(*own)) : own.take_error());
  }
  if (launches.size() == 2 && launches[1].microseconds < launches[0].microseconds)
    std::swap(launches[0], launches[1]);
  const double in_turns = static_cast<double>(loop.trips) * apart.microseconds;
  const int64_t count = loop.trips * std::ssize(plan.kernels);
  const double least_us =
      sharing.joins == Joins::kFewest ? -kFewMayLose * in_turns : worth_waiting_us(count, target);
  // What stays on chip makes a step at most so much shorter: beyond that none needs to be built.
  constexpr double kMostOfStep = 0.5;
  for (const Repetition& launch : launches) {
    if (launch.microseconds * kMostOfStep > in_turns - least_us) {
      return unsupported(fmt::format("one launch is predicted to take {:.1f} us, launches {:.1f}",
                                     launch.microseconds, in_turns));
    }
    auto kernel = in_one_launch(body, loop, plan, launch);
    if (!kernel.ok()) {
      if (!error) error = kernel.take_error();
      continue;
    }
    const double in_one = kernel->schedule.estimate.microseconds;
    if (in_one <= in_turns - least_us) return kernel;
    return unsupported(fmt::format("one launch is predicted to take {:.1f} us, launches {:.1f}",
                                   in_one, in_turns));
  }
  return error ? *error : unsupported("no launch is shared");
}

/// What the kernels take in each of many iterations: what the second-level cache does not hold
/// until the next one comes from memory again.
void price_iterations(const TensorProgram& body, const Target& target, FusionPlan& plan) {
  std::set<TensorId> parameters;
  for (const PlannedKernel& kernel : plan.kernels)
    parameters.insert(kernel.schedule.parameters.begin(), kernel.schedule.parameters.end());
  const double gb_per_s = target.bandwidth_gb_per_s(touched_bytes(body, parameters));
  for (PlannedKernel& kernel : plan.kernels) {
    Estimate& e = kernel.schedule.estimate;
    const auto bytes = static_cast<double>(e.bytes_read + e.bytes_written);
    e.microseconds = std::max(e.microseconds, target.launch_us + bytes / (gb_per_s * 1e3));
  }
}

}  // namespace

Status repeat_region(const TensorProgram& body, const RegionLoop& loop, const Target& target,
                     const LaunchSharing& sharing, FusionPlan& plan) {
  if (target.is_gpu()) price_iterations(body, target, plan);
  const bool meets = target.grid_barriers || sharing.on_cluster != nullptr;
  if (sharing.joins == Joins::kNo || !target.is_gpu() || !meets || plan.kernels.empty() ||
      !body.opaques.empty()) {
    return {};
  }
  auto kernel = repeated(body, loop, target, plan, sharing);
  if (!kernel.ok()) {
    const ErrorCode code = kernel.error().code;
    if (code != ErrorCode::kUnsupported && code != ErrorCode::kInvalidInput)
      return kernel.take_error();
    plan.steps_apart_because = kernel.error().message;
    return {};
  }
  plan.kernels.clear();
  plan.kernels.push_back(std::move(*kernel));
  plan.order.assign(1, {false, 0});
  note_copies(body, plan);
  return {};
}

}  // namespace weft

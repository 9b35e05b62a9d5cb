#include "plan/planners/plan_fusion.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "plan/cluster_kernels.h"
#include "plan/order_kernels.h"
#include "plan/planners/planners.h"
#include "plan/share_cpu_launches.h"
#include "schedule/gpu/cluster_device.h"

namespace weft {

namespace {

/// What is known of a program before its kernels are: how names begin, and the plans of its
/// regions.
struct ProgramFacts {
  const std::string& prefix;
  const std::vector<RegionPlans>& regions;
};

/// What is known of the groups and kernels of a program, and of the regions of its loops.
struct KnownKernels {
  PlanningMemory& memory;
  PlanningMemory::OfTarget& of(const ProgramFacts& facts) {
    return facts.prefix.empty() ? memory.outside : memory.inside;
  }
  std::optional<ClusterKernels> on_cluster;  ///< none: the target has no clusters
};

/// What the options ask for, parsed.
struct Request {
  const Planner& planner;
  std::optional<CompositionKinds> kinds;  ///< none: the planner's
  std::string_view only = {};             ///< of its alternatives: one planner's; empty: all
  PlannerParameters parameters;
  CancelFlag cancel = nullptr;
  bool compute_as_calls = false;
  const MeasuredCompositions* measured = nullptr;
};

/// Of its kernels, those that run whole loops included; the other steps of regions are left out.
double predicted_us(const FusionPlan& plan) {
  double us = 0;
  for (const PlannedKernel& kernel : plan.kernels) us += kernel.schedule.estimate.microseconds;
  for (const RegionPlans& regions : plan.regions) {
    if (runs_whole_loop(regions)) us += regions[0]->kernels[0].schedule.estimate.microseconds;
  }
  return us;
}

bool has_open_lengths(const TensorProgram& program) {
  const auto is_open = [](const TensorExpr& e) {
    return std::ranges::find(e.open, true) != e.open.end();
  };
  return std::ranges::any_of(program.exprs, is_open) ||
         std::ranges::any_of(program.opaques, [](const OpaqueExpr& o) {
           return std::ranges::any_of(o.regions,
                                      [](const auto& r) { return has_open_lengths(*r); });
         });
}

CompositionKinds kinds_of(const Request& request, const Target& target) {
  const Planner& planner = request.planner;
  return request.kinds.value_or(target.is_gpu() ? planner.compositions_of_gpus
                                                : planner.compositions);
}

/// `planner` is the one that was asked for: the plans that it compares are of others.
Joins joins_of(const Planner& planner, CompositionKinds kinds) {
  if (!kinds.grid && !kinds.cluster) return Joins::kNo;
  const bool compares = !planner.alternatives_of_gpus.empty();
  return compares && !planner.joins_launches ? Joins::kWhereQuicker : Joins::kFewest;
}

LaunchSharing sharing_of(const Request& request, CompositionKinds kinds, KnownKernels& known) {
  const bool clusters = kinds.cluster && known.on_cluster;
  return {.joins = joins_of(request.planner, kinds),
          .on_grid = kinds.grid,
          .on_cluster = clusters ? &*known.on_cluster : nullptr,
          .memory = {.keeps = request.planner.keeps_on_chip && request.parameters.reuse != 0,
                     .ahead = request.planner.keeps_on_chip && request.parameters.ahead != 0}};
}

/// Lets kernels share launches, one after another and side by side. Of a plan with barriers and one
/// without the quicker one stays.
Status share_launches(const TensorProgram& program, const Target& target,
                      const LaunchSharing& sharing, KnownGroups& known, FusionPlan& plan) {
  const Joins joins = sharing.joins;
  if (!target.is_gpu()) return share_cpu_launches(program, target, joins, known.keys(), plan);
  constexpr size_t kMostKernels = 2000;  // beyond that a second plan takes too much memory
  constexpr double kAlike = 0.995;       // blocks that stay hold the device, others come and go
  if (joins == Joins::kNo || (joins == Joins::kWhereQuicker && plan.kernels.size() > kMostKernels))
    return pack_independent(program, target, plan);
  std::optional<FusionPlan> apart;
  if (joins == Joins::kWhereQuicker) apart = plan;
  WEFT_RETURN_IF_ERROR(join_dependent(program, target, sharing, plan));
  WEFT_RETURN_IF_ERROR(pack_independent(program, target, plan));
  if (!apart) return {};
  WEFT_RETURN_IF_ERROR(pack_independent(program, target, *apart));
  if (predicted_us(plan) > kAlike * predicted_us(*apart)) plan = std::move(*apart);
  return {};
}

/// The kernels of one program by one planner.
Result<FusionPlan> plan_of_partition(const TensorProgram& program, const Target& target,
                                     const Planner& planner, Partition parts,
                                     const LaunchSharing& sharing, const ProgramFacts& facts,
                                     KnownGroups& known, KernelsByKey& kernels) {
  FusionPlan plan;
  plan.regions = facts.regions;
  plan.edges = std::move(parts.edges);
  plan.optimality = parts.optimality;
  WEFT_ASSIGN_OR_RETURN(plan.order, order_kernels(program, parts.groups));
  for (size_t g = 0; g < parts.groups.size(); ++g) {
    PlannedKernel kernel;
    kernel.group = std::move(parts.groups[g]);
    const TensorExpr& last = program.exprs[static_cast<size_t>(kernel.group.exprs.back())];
    kernel.name = facts.prefix + "k" + std::to_string(g) + "_" +
                  program.tensors[static_cast<size_t>(last.output)].name;
    for (const ExprId e : kernel.group.exprs)
      kernel.is_compute |= program.exprs[static_cast<size_t>(e)].is_contraction;
    kernel.is_call = kernel.is_compute && known.compute_as_calls();
    plan.kernels.push_back(std::move(kernel));
  }
  WEFT_RETURN_IF_ERROR(kernels.schedule(program, known, parts.composed, plan));
  if (planner.packs_launches)
    WEFT_RETURN_IF_ERROR(share_launches(program, target, sharing, known, plan));
  note_copies(program, plan);
  kernels.estimate(known.keys(), plan);
  return plan;
}

/// The quickest of several planners' plans. Two are not built: what was built before under another
/// name, and what traffic and launches alone put far behind.
class Comparison {
 public:
  Comparison(const TensorProgram& program, const Target& target, const ProgramFacts& facts,
             KnownKernels& kernels, const Request& request)
      : program_(program),
        target_(target),
        facts_(facts),
        kernels_(kernels),
        request_(request),
        known_(program, target, kernels.of(facts).groups, request.cancel, request.compute_as_calls),
        cost_(program, target) {}

  Status add(const Alternative& alternative, CompositionKinds kinds) {
    if (program_.steps.size() > alternative.most_steps) return {};
    WEFT_ASSIGN_OR_RETURN(const Planner* planner, find_planner(alternative.planner));
    WEFT_ASSIGN_OR_RETURN(Partition parts,
                          planner->partition({program_, target_, kinds, known_, request_.parameters,
                                              request_.measured}));
    if (!is_new(*planner, parts)) return {};
    const double apart_us = by_cost(parts);
    if (best_ && apart_us > (planner->packs_launches ? kFarUnpacked : kFar) * best_apart_us_)
      return {};
    WEFT_ASSIGN_OR_RETURN(FusionPlan plan,
                          plan_of_partition(program_, target_, *planner, std::move(parts),
                                            sharing_of(request_, kinds, kernels_), facts_, known_,
                                            kernels_.of(facts_).kernels));
    const double us = predicted_us(plan);
    if (best_ && us >= best_us_) return {};
    best_us_ = us;
    best_apart_us_ = apart_us;
    best_ = std::move(plan);
    return {};
  }

  FusionPlan best() && { return std::move(*best_); }

 private:
  static constexpr double kFar = 1.25, kFarUnpacked = 2.5;  ///< shared launches can halve a plan's

  bool is_new(const Planner& planner, const Partition& parts) {
    std::vector<std::vector<ExprId>> groups;
    for (const Group& g : parts.groups) groups.push_back(g.exprs);
    return built_.emplace(planner.packs_launches, std::move(groups)).second;
  }

  /// By traffic and launches alone, before any launch is shared.
  double by_cost(const Partition& parts) const {
    double us = 0;
    for (const Group& g : parts.groups) us += cost_.estimate(g.exprs, g.outputs).microseconds;
    return us;
  }

  const TensorProgram& program_;
  const Target& target_;
  const ProgramFacts facts_;
  KnownKernels& kernels_;
  const Request& request_;
  KnownGroups known_;
  CostModel cost_;
  std::set<std::pair<bool, std::vector<std::vector<ExprId>>>> built_;
  std::optional<FusionPlan> best_;
  double best_us_ = 0, best_apart_us_ = 0;
};

/// The kernels of one program whose regions are planned.
Result<FusionPlan> plan_kernels(const TensorProgram& program, const Target& target,
                                const Request& request, const ProgramFacts& facts,
                                KnownKernels& kernels) {
  const Planner& planner = request.planner;
  const CompositionKinds allowed = kinds_of(request, target);
  const std::span<const Alternative> alternatives =
      target.is_gpu() ? planner.alternatives_of_gpus : planner.alternatives;
  if (alternatives.empty()) {
    KnownGroups known(program, target, kernels.of(facts).groups, request.cancel,
                      request.compute_as_calls);
    WEFT_ASSIGN_OR_RETURN(
        Partition parts,
        planner.partition({program, target, allowed, known, request.parameters, request.measured}));
    return plan_of_partition(program, target, planner, std::move(parts),
                             sharing_of(request, allowed, kernels), facts, known,
                             kernels.of(facts).kernels);
  }
  Comparison comparison(program, target, facts, kernels, request);
  std::set<std::tuple<std::string_view, bool, bool>> added;
  const auto is_asked = [&](const Alternative& a) {
    return a.planner == request.only && program.steps.size() <= a.most_steps;
  };
  const bool some = std::ranges::any_of(alternatives, is_asked);
  for (const Alternative& a : alternatives) {
    if (some && !is_asked(a)) continue;
    const CompositionKinds both = {.leaf = a.compositions.leaf && allowed.leaf,
                                   .block = a.compositions.block && allowed.block,
                                   .grid = allowed.grid,
                                   .chain = a.compositions.chain && allowed.chain,
                                   .recur = allowed.recur,
                                   .cluster = allowed.cluster};
    if (added.emplace(a.planner, both.leaf, both.block).second)
      WEFT_RETURN_IF_ERROR(comparison.add(a, both));
  }
  return std::move(comparison).best();
}

/// Whether a loop's iterations share a launch.
LaunchSharing repeats(const Request& request, const Target& target, KnownKernels& known) {
  CompositionKinds kinds = kinds_of(request, target);
  kinds.grid = kinds.recur;
  kinds.cluster &= kinds.recur;
  return sharing_of(request, kinds, known);
}

Result<FusionPlan> plan_program(const TensorProgram& program, const Target& target,
                                const Request& request, const std::string& prefix,
                                KnownKernels& known);

/// The body of a loop. Where its iterations may share a launch, what saves launches apart may be
/// slow behind barriers: the body is also planned without blocks of stages, and so by each planner
/// alone.
Result<FusionPlan> plan_body(const TensorProgram& body, const RegionLoop& loop,
                             const Target& target, const Request& request,
                             const std::string& prefix, KnownKernels& known) {
  const LaunchSharing sharing = repeats(request, target, known);
  const auto planned = [&](const Request& asked) -> Result<FusionPlan> {
    WEFT_ASSIGN_OR_RETURN(FusionPlan plan, plan_program(body, target, asked, prefix, known));
    WEFT_RETURN_IF_ERROR(repeat_region(body, loop, target, sharing, plan));
    return plan;
  };
  const auto is_whole = [](const FusionPlan& plan) {
    return plan.kernels.size() == 1 && plan.kernels[0].loop;
  };
  const auto of_all = [&](const FusionPlan& plan) {
    return predicted_us(plan) * (is_whole(plan) ? 1.0 : static_cast<double>(loop.trips));
  };
  // That one launch loses little was asked where it was made.
  const auto is_better = [&](const FusionPlan& one, const FusionPlan& other) {
    if (sharing.joins == Joins::kFewest && is_whole(one) != is_whole(other)) return is_whole(one);
    return of_all(one) < of_all(other);
  };
  WEFT_ASSIGN_OR_RETURN(FusionPlan best, planned(request));
  Request leaves = request;
  leaves.kinds = kinds_of(request, target);
  if (sharing.joins == Joins::kNo || !target.is_gpu() || !leaves.kinds->block ||
      !body.opaques.empty())
    return best;
  leaves.kinds->block = false;
  std::set<std::string_view> alone = {""};
  for (const Alternative& a : request.planner.alternatives_of_gpus) alone.insert(a.planner);
  for (const std::string_view name : alone) {
    leaves.only = name;
    WEFT_ASSIGN_OR_RETURN(FusionPlan other, planned(leaves));
    if (is_better(other, best)) best = std::move(other);
  }
  return best;
}

/// `prefix` tells the kernels of a region from those around it.
Result<FusionPlan> plan_program(const TensorProgram& program, const Target& target,
                                const Request& request, const std::string& prefix,
                                KnownKernels& known) {
  std::vector<RegionPlans> all;
  for (size_t o = 0; o < program.opaques.size(); ++o) {
    RegionPlans& regions = all.emplace_back();
    for (const auto& region : program.opaques[o].regions) {
      std::string inside =
          prefix + std::string(graph_op_name(program.opaques[o].node.op)) + std::to_string(o) + ".";
      if (program.opaques[o].regions.size() > 1) inside += std::to_string(regions.size()) + ".";
      const auto loop = loop_around(program, program.opaques[o]);
      const Target within = of_region(target);
      WEFT_ASSIGN_OR_RETURN(FusionPlan inner,
                            loop ? plan_body(*region, *loop, within, request, inside, known)
                                 : plan_program(*region, within, request, inside, known));
      regions.push_back(std::make_shared<FusionPlan>(std::move(inner)));
    }
  }
  WEFT_ASSIGN_OR_RETURN(FusionPlan plan,
                        plan_kernels(program, target, request, {prefix, all}, known));
  plan.planner = request.planner.name;
  return plan;
}

}  // namespace

Result<FusionPlan> plan_fusion(const TensorProgram& program, const Target& target,
                               const PlanOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const Planner* planner, find_planner(options.planner));
  Request request{.planner = *planner,
                  .kinds = {},
                  .only = {},
                  .parameters = {},
                  .cancel = options.cancel,
                  .compute_as_calls = options.compute_as_calls,
                  .measured = options.measured};
  if (!options.compositions.empty()) {
    WEFT_ASSIGN_OR_RETURN(request.kinds, parse_composition_kinds(options.compositions));
  } else if (!target.is_gpu() && !planner->blocks_open_lengths && has_open_lengths(program)) {
    request.kinds = planner->compositions;
    request.kinds->block = false;
  }
  WEFT_ASSIGN_OR_RETURN(request.parameters,
                        parse_planner_parameters(options.parameters, options.planner));
  std::optional<PlanningMemory> own;
  if (options.memory == nullptr) own.emplace(target, options.measured);
  KnownKernels known{own ? *own : *options.memory, {}};
  if (const auto device = cluster_device(target)) known.on_cluster.emplace(*device);
  return plan_program(program, target, request, {}, known);
}

}  // namespace weft

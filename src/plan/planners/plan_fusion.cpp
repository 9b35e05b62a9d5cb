#include <algorithm>
#include <map>
#include <optional>

#include "group/group_key.h"
#include "plan/order_kernels.h"
#include "plan/planners/plan_fusion.h"
#include "plan/planners/planners.h"
#include "support/for_each_in_parallel.h"

namespace weft {

namespace {

/// Of work on so many kernels. Few are done sooner than threads are started.
int threads_for(size_t kernels) {
  constexpr size_t kFewKernels = 8;
  return kernels < kFewKernels ? 1 : usable_threads();
}

/// Kernels do not depend on each other's schedules, so they are made side by side.
Status schedule_kernels(const TensorProgram& program, const Target& target, FusionPlan& plan) {
  std::vector<std::optional<Error>> errors(plan.kernels.size());
  for_each_in_parallel(plan.kernels.size(), threads_for(plan.kernels.size()), [&](size_t k) {
    PlannedKernel& kernel = plan.kernels[k];
    auto schedule = schedule_group(program, kernel.group, target, kernel.name);
    if (schedule.ok()) {
      kernel.schedule = std::move(*schedule);
    } else {
      errors[k] = schedule.take_error();
    }
  });
  for (std::optional<Error>& error : errors) {
    if (error) return std::move(*error);
  }
  return {};
}

/// Traffic of the tile programs that were chosen. Groups of one key have the same; what shares a
/// launch is looked at alone.
void estimate_kernels(const TensorProgram& program, FusionPlan& plan) {
  GroupKeys keys(program);
  std::map<Hash128, size_t> first;
  std::vector<size_t> distinct, like;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const PlannedKernel& kernel = plan.kernels[k];
    const bool alone = kernel.members.empty();
    const auto [at, is_new] =
        alone ? first.emplace(keys.of(kernel.group).hash, k) : std::pair(first.end(), true);
    if (is_new) distinct.push_back(k);
    like.push_back(is_new ? k : at->second);
  }
  for_each_in_parallel(distinct.size(), threads_for(distinct.size()),
                       [&](size_t i) { estimate_traffic(plan.kernels[distinct[i]].schedule); });
  for (size_t k = 0; k < like.size(); ++k) {
    const Estimate& known = plan.kernels[like[k]].schedule.estimate;
    Estimate& own = plan.kernels[k].schedule.estimate;
    own.bytes_read = known.bytes_read;
    own.bytes_written = known.bytes_written;
    own.bytes_requested = known.bytes_requested;
  }
}

/// `prefix` tells the kernels of a region from those around it.
Result<FusionPlan> plan_program(const TensorProgram& program, const Target& target,
                                const Planner& planner, CompositionKinds kinds,
                                const std::string& prefix) {
  Partition parts = planner.partition(program, target, kinds);
  FusionPlan plan;
  plan.planner = planner.name;
  plan.edges = std::move(parts.edges);
  WEFT_ASSIGN_OR_RETURN(plan.order, order_kernels(program, parts.groups));
  for (size_t g = 0; g < parts.groups.size(); ++g) {
    PlannedKernel kernel;
    kernel.group = std::move(parts.groups[g]);
    const TensorExpr& last = program.exprs[static_cast<size_t>(kernel.group.exprs.back())];
    kernel.name = prefix + "k" + std::to_string(g) + "_" +
                  program.tensors[static_cast<size_t>(last.output)].name;
    for (const ExprId e : kernel.group.exprs)
      kernel.is_compute |= program.exprs[static_cast<size_t>(e)].is_contraction;
    plan.kernels.push_back(std::move(kernel));
  }
  WEFT_RETURN_IF_ERROR(schedule_kernels(program, target, plan));
  if (planner.packs_launches) WEFT_RETURN_IF_ERROR(pack_independent(program, target, plan));
  note_copies(program, plan);
  estimate_kernels(program, plan);
  for (size_t o = 0; o < program.opaques.size(); ++o) {
    std::vector<std::shared_ptr<FusionPlan>> regions;
    for (const auto& region : program.opaques[o].regions) {
      std::string inside =
          prefix + std::string(graph_op_name(program.opaques[o].node.op)) + std::to_string(o) + ".";
      if (program.opaques[o].regions.size() > 1) inside += std::to_string(regions.size()) + ".";
      WEFT_ASSIGN_OR_RETURN(FusionPlan inner,
                            plan_program(*region, of_region(target), planner, kinds, inside));
      regions.push_back(std::make_shared<FusionPlan>(std::move(inner)));
    }
    plan.regions.push_back(std::move(regions));
  }
  return plan;
}

}  // namespace

Result<FusionPlan> plan_fusion(const TensorProgram& program, const Target& target,
                               const PlanOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const Planner* planner, find_planner(options.planner));
  CompositionKinds kinds = planner->compositions;
  if (!options.compositions.empty()) {
    WEFT_ASSIGN_OR_RETURN(kinds, parse_composition_kinds(options.compositions));
  }
  return plan_program(program, target, *planner, kinds, {});
}

}  // namespace weft

#include "plan/planners/plan_fusion.h"
#include "plan/kernels_by_key.h"
#include "plan/order_kernels.h"
#include "plan/planners/planners.h"

namespace weft {

namespace {

/// Kernels of a program, and of the regions of its loops and conditions.
struct KnownKernels {
  KernelsByKey outside, inside;
};

/// `prefix` tells the kernels of a region from those around it.
Result<FusionPlan> plan_program(const TensorProgram& program, const Target& target,
                                const Planner& planner, CompositionKinds kinds,
                                const std::string& prefix, KnownKernels& known) {
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
  GroupKeys keys(program);
  KernelsByKey& kernels = prefix.empty() ? known.outside : known.inside;
  WEFT_RETURN_IF_ERROR(kernels.schedule(program, keys, plan));
  if (planner.packs_launches) WEFT_RETURN_IF_ERROR(pack_independent(program, target, plan));
  note_copies(program, plan);
  kernels.estimate(keys, plan);
  for (size_t o = 0; o < program.opaques.size(); ++o) {
    std::vector<std::shared_ptr<FusionPlan>> regions;
    for (const auto& region : program.opaques[o].regions) {
      std::string inside =
          prefix + std::string(graph_op_name(program.opaques[o].node.op)) + std::to_string(o) + ".";
      if (program.opaques[o].regions.size() > 1) inside += std::to_string(regions.size()) + ".";
      WEFT_ASSIGN_OR_RETURN(FusionPlan inner, plan_program(*region, of_region(target), planner,
                                                           kinds, inside, known));
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
  KnownKernels known{KernelsByKey(target), KernelsByKey(of_region(target))};
  return plan_program(program, target, *planner, kinds, {}, known);
}

}  // namespace weft

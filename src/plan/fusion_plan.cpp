#include "plan/fusion_plan.h"

#include <algorithm>
#include <utility>

namespace weft {

bool runs_whole_loop(const RegionPlans& regions) {
  return regions.size() == 1 && regions[0]->kernels.size() == 1 &&
         regions[0]->kernels[0].loop.has_value();
}

Target of_region(Target target) {
  target.libraries.clear();
  return target;
}

std::vector<std::vector<ExprId>> copies_of(const TensorProgram& program, const FusionPlan& plan) {
  const auto stores = [&](const PlannedKernel& kernel, ExprId e) {
    const TensorId made = program.exprs[static_cast<size_t>(e)].output;
    return std::ranges::find(kernel.group.outputs, made) != kernel.group.outputs.end();
  };
  std::vector<int32_t> original(program.exprs.size(), -1);
  for (const FusionPlan::Step& step : plan.order) {
    if (step.opaque) continue;
    const PlannedKernel& kernel = plan.kernels[static_cast<size_t>(step.index)];
    for (const ExprId e : kernel.group.exprs) {
      int32_t& at = original[static_cast<size_t>(e)];
      if (at < 0 || stores(kernel, e)) at = step.index;
    }
  }
  std::vector<std::vector<ExprId>> copies(plan.kernels.size());
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    for (const ExprId e : plan.kernels[k].group.exprs) {
      if (original[static_cast<size_t>(e)] != static_cast<int32_t>(k)) copies[k].push_back(e);
    }
  }
  return copies;
}

void note_copies(const TensorProgram& program, FusionPlan& plan) {
  std::vector<std::vector<ExprId>> copies = copies_of(program, plan);
  for (size_t k = 0; k < copies.size(); ++k) plan.kernels[k].copies = std::move(copies[k]);
}

}  // namespace weft

#include "plan/step_order.h"

#include <algorithm>

namespace weft {

StepOrder::StepOrder(const TensorProgram& program, const FusionPlan& plan) : plan_(plan) {
  made_at_.assign(program.tensors.size(), -1);
  for (size_t s = 0; s < plan.order.size(); ++s) {
    const FusionPlan::Step& step = plan.order[s];
    const std::vector<TensorId>& made =
        step.opaque ? program.opaques[static_cast<size_t>(step.index)].results
                    : plan.kernels[static_cast<size_t>(step.index)].group.outputs;
    for (const TensorId t : made) place(t, s);
  }
}

bool StepOrder::ready(int32_t kernel, size_t position) const {
  const PlannedKernel& k = plan_.kernels[static_cast<size_t>(kernel)];
  return std::ranges::all_of(k.schedule.parameters, [&](TensorId t) {
    return std::ranges::find(k.group.outputs, t) != k.group.outputs.end() ||
           made_at(t) < static_cast<int64_t>(position);
  });
}

void StepOrder::move(int32_t kernel, size_t position) {
  for (const TensorId t : plan_.kernels[static_cast<size_t>(kernel)].group.outputs)
    place(t, position);
}

Status replace_kernels(FusionPlan& plan, const std::vector<bool>& gone,
                       const std::function<Result<PlannedKernel>(size_t step)>& kernel_at) {
  std::vector<FusionPlan::Step> steps;
  std::vector<PlannedKernel> kernels;
  for (size_t s = 0; s < plan.order.size(); ++s) {
    if (gone[s]) continue;
    steps.push_back(plan.order[s]);
    if (steps.back().opaque) continue;
    WEFT_ASSIGN_OR_RETURN(PlannedKernel kernel, kernel_at(s));
    steps.back().index = static_cast<int32_t>(kernels.size());
    kernels.push_back(std::move(kernel));
  }
  plan.kernels = std::move(kernels);
  plan.order = std::move(steps);
  return {};
}

}  // namespace weft

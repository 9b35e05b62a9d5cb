#include "plan/step_order.h"

#include <algorithm>

namespace weft {

Gap operator&(const Gap& a, const Gap& b) {
  return {std::max(a.after, b.after), std::min(a.before, b.before)};
}

StepOrder::StepOrder(const TensorProgram& program, const FusionPlan& plan)
    : program_(program),
      plan_(plan),
      places_(plan.order.size()),
      makers_(program.tensors.size(), -1),
      readers_(program.tensors.size()),
      gaps_(plan.order.size()) {
  for (size_t s = 0; s < plan.order.size(); ++s) {
    places_[s] = static_cast<int64_t>(s);
    for (const TensorId t : made_by(s)) makers_[static_cast<size_t>(t)] = static_cast<int32_t>(s);
  }
  for (size_t s = 0; s < plan.order.size(); ++s) {
    for (const TensorId t : reads_of(s))
      readers_[static_cast<size_t>(t)].push_back(static_cast<int32_t>(s));
  }
  for (size_t s = 0; s < plan.order.size(); ++s) find_gap(s);
}

const std::vector<TensorId>& StepOrder::made_by(size_t step) const {
  const FusionPlan::Step& of = plan_.order[step];
  return of.opaque ? program_.opaques[static_cast<size_t>(of.index)].results
                   : plan_.kernels[static_cast<size_t>(of.index)].group.outputs;
}

std::vector<TensorId> StepOrder::reads_of(size_t step) const {
  const FusionPlan::Step& of = plan_.order[step];
  if (of.opaque) return program_.opaques[static_cast<size_t>(of.index)].operands;
  std::vector<TensorId> out;
  const std::vector<TensorId>& made = made_by(step);
  for (const TensorId t : plan_.kernels[static_cast<size_t>(of.index)].schedule.parameters) {
    if (std::ranges::find(made, t) == made.end()) out.push_back(t);
  }
  return out;
}

int64_t StepOrder::made_at(TensorId t) const {
  const int32_t maker = makers_[static_cast<size_t>(t)];
  return maker < 0 ? -1 : places_[static_cast<size_t>(maker)];
}

void StepOrder::find_gap(size_t step) {
  Gap& gap = gaps_[step] = {};
  for (const TensorId t : reads_of(step)) gap.after = std::max(gap.after, made_at(t));
  for (const TensorId t : made_by(step)) {
    for (const int32_t reader : readers_[static_cast<size_t>(t)])
      gap.before = std::min(gap.before, places_[static_cast<size_t>(reader)]);
  }
}

void StepOrder::move(size_t step, size_t place) {
  if (places_[step] == static_cast<int64_t>(place)) return;
  places_[step] = static_cast<int64_t>(place);
  for (const TensorId t : reads_of(step)) {
    if (const int32_t maker = makers_[static_cast<size_t>(t)]; maker >= 0)
      find_gap(static_cast<size_t>(maker));
  }
  for (const TensorId t : made_by(step)) {
    for (const int32_t reader : readers_[static_cast<size_t>(t)])
      find_gap(static_cast<size_t>(reader));
  }
}

Status replace_kernels(FusionPlan& plan, const std::vector<bool>& gone,
                       const std::function<Result<PlannedKernel>(size_t step)>& kernel_at,
                       const LaunchAt& launch_at) {
  std::vector<FusionPlan::Step> steps;
  std::vector<PlannedKernel> kernels;
  for (size_t s = 0; s < plan.order.size(); ++s) {
    if (gone[s]) continue;
    steps.push_back(plan.order[s]);
    std::optional<PlannedKernel> kernel;
    if (!steps.back().opaque) {
      WEFT_ASSIGN_OR_RETURN(kernel, kernel_at(s));
    } else if (launch_at) {
      WEFT_ASSIGN_OR_RETURN(kernel, launch_at(s));
    }
    if (!kernel) continue;
    steps.back() = {false, static_cast<int32_t>(kernels.size())};
    kernels.push_back(std::move(*kernel));
  }
  plan.kernels = std::move(kernels);
  plan.order = std::move(steps);
  return {};
}

}  // namespace weft

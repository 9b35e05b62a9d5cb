#include "driver/lower_plan.h"

#include <optional>
#include <utility>

#include "lower/lower.h"
#include "runtime/thread_pool.h"
#include "support/for_each_in_parallel.h"

namespace weft {

namespace {

/// A plan's kernels, then those of its regions' plans; notes where each has its number.
void place(FusionPlan& plan, const TensorProgram& tensors, bool in_region,
           std::vector<PlacedKernel>* placed,
           std::map<const FusionPlan*, std::vector<size_t>>* kernel_of) {
  std::vector<size_t> numbers;
  for (PlannedKernel& kernel : plan.kernels) {
    numbers.push_back(placed->size());
    placed->push_back({&kernel, &tensors, in_region});
  }
  if (kernel_of != nullptr) (*kernel_of)[&plan] = std::move(numbers);
  for (size_t o = 0; o < plan.regions.size(); ++o) {
    for (size_t r = 0; r < plan.regions[o].size(); ++r) {
      place(*plan.regions[o][r], *tensors.opaques[o].regions[r], true, placed, kernel_of);
    }
  }
}

/// Slices that a loop hands to its body start at any element.
void forget_alignment(KernelFunction& kernel) {
  for (KernelBuffer& b : kernel.buffers) {
    const bool own =
        b.kind == KernelBuffer::Kind::kWorkspace || b.kind == KernelBuffer::Kind::kShared;
    if (!own) b.alignment = static_cast<int32_t>(byte_size(b.dtype));
  }
}

/// What follows the lowering of each kernel, in order.
Status finish(const Compilation& c, const ScheduledKernel& schedule, bool in_region,
              KernelFunction& f) {
  f.library = schedule.library;
  if (f.is_gpu() && in_region) forget_alignment(f);
  if (c.options.tamper) c.options.tamper(f);
  return c.options.verify ? verify_kernel(f) : Status();
}

}  // namespace

std::vector<PlacedKernel> placed_kernels(Compilation& c) {
  std::vector<PlacedKernel> placed;
  place(c.plan, c.tensors, false, &placed, nullptr);
  return placed;
}

Result<KernelFunction> lower_planned(const Compilation& c, const ScheduledKernel& schedule,
                                     bool in_region) {
  WEFT_ASSIGN_OR_RETURN(KernelFunction f,
                        lower_to_kernel(schedule.program, schedule.scopes, c.target));
  WEFT_RETURN_IF_ERROR(finish(c, schedule, in_region, f));
  return f;
}

Status lower_plan(Compilation& c) {
  std::vector<PlacedKernel> placed;
  place(c.plan, c.tensors, false, &placed, &c.kernel_of);
  std::vector<std::optional<Result<KernelFunction>>> made(placed.size());
  for_each_in_parallel(placed.size(), available_cores(), [&](size_t k) {
    const ScheduledKernel& schedule = placed[k].kernel->schedule;
    made[k].emplace(lower_to_kernel(schedule.program, schedule.scopes, c.target));
  });
  for (size_t k = 0; k < placed.size(); ++k) {
    if (!made[k]->ok()) return made[k]->take_error();
    KernelFunction f = std::move(**made[k]);
    WEFT_RETURN_IF_ERROR(finish(c, placed[k].kernel->schedule, placed[k].in_region, f));
    c.kernels.push_back(std::move(f));
  }
  return {};
}

}  // namespace weft

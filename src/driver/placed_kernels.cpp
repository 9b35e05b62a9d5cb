#include "driver/placed_kernels.h"

#include <utility>

#include "lower/lower.h"

namespace weft {

namespace {

/// A plan's kernels, then those of its regions' plans.
void place(FusionPlan& plan, const TensorProgram& tensors, bool in_region,
           std::vector<PlacedKernel>* placed) {
  for (PlannedKernel& kernel : plan.kernels) placed->push_back({&kernel, &tensors, in_region});
  for (size_t o = 0; o < plan.regions.size(); ++o) {
    for (size_t r = 0; r < plan.regions[o].size(); ++r)
      place(*plan.regions[o][r], *tensors.opaques[o].regions[r], true, placed);
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

}  // namespace

std::vector<PlacedKernel> placed_kernels(Compilation& c) {
  std::vector<PlacedKernel> placed;
  place(c.plan, c.tensors, false, &placed);
  return placed;
}

Result<KernelFunction> lower_planned(const Compilation& c, const ScheduledKernel& schedule,
                                     bool in_region) {
  WEFT_ASSIGN_OR_RETURN(KernelFunction f,
                        lower_to_kernel(schedule.program, schedule.scopes, c.target));
  f.library = schedule.library;
  WEFT_RETURN_IF_ERROR(finish_kernel(c, in_region, f));
  return f;
}

Status finish_kernel(const Compilation& c, bool in_region, KernelFunction& f) {
  if (f.is_gpu() && in_region) forget_alignment(f);
  if (c.options.tamper) c.options.tamper(f);
  return c.options.verify ? verify_kernel(f) : Status();
}

}  // namespace weft

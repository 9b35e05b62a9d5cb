#pragma once

#include <vector>

#include "driver/compiler.h"

namespace weft {

/// A kernel of a compilation's plan, or of the plan of a region.
struct PlacedKernel {
  PlannedKernel* kernel = nullptr;
  const TensorProgram* tensors = nullptr;
  bool in_region = false;
};

/// The plan's kernels and those of its regions, in the order of first use: their numbers in
/// Compilation::kernels.
std::vector<PlacedKernel> placed_kernels(Compilation& c);

/// A tile program lowered for the compilation's target.
Result<KernelFunction> lower_planned(const Compilation& c, const ScheduledKernel& schedule,
                                     bool in_region);

/// What follows the lowering of each kernel, in their order.
Status finish_kernel(const Compilation& c, bool in_region, KernelFunction& f);

}  // namespace weft

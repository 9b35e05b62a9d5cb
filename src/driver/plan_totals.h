#pragma once

#include <cstdint>
#include <functional>

#include "driver/compiler.h"

namespace weft {

/// Sums over a run of a compilation's plan: what stands in a scan counts once a step; branches and
/// while loops once.
PlanTotals plan_totals(const Compilation& c);

/// Times that the regions of an opaque step run: the steps of a scan, else 1.
int64_t trip_count(const TensorProgram& program, const OpaqueExpr& opaque);

/// Times that they run where the opaque step itself runs `times` times; never overflows.
int64_t region_runs(const TensorProgram& program, const OpaqueExpr& opaque, int64_t times);

/// Calls f(kernel, times that it runs) for the kernels of a plan and of its regions' plans.
void for_each_kernel(const FusionPlan& plan, const TensorProgram& program,
                     const std::function<void(const PlannedKernel&, int64_t)>& f);

}  // namespace weft

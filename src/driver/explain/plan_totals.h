#pragma once

#include <cstdint>
#include <functional>

#include "plan/fusion_plan.h"
#include "target/target.h"

namespace weft {

/// Sums over a run of a plan.
struct PlanTotals {
  int64_t ops = 0;                                  ///< nodes of the model
  int64_t memory_kernels = 0, compute_kernels = 0;  ///< in the plan, not launches
  int64_t library_calls = 0;    ///< the same, of a vendor's library or counted as such
  int64_t opaque_steps = 0;     ///< that no kernel holds: sort, scatter, …
  int64_t launches = 0;         ///< of all of these in a run
  int64_t memory_launches = 0;  ///< of memory kernels
  int64_t bytes_read = 0, bytes_written = 0, flops = 0;
  double predicted_us = 0;
};

/// What stands in a scan counts once a step; branches and while loops once. `ops`: nodes of the
/// model.
PlanTotals plan_totals(const FusionPlan& plan, const TensorProgram& program, int64_t ops);

/// Kernels of a plan and its regions, each once, by what they are (pattern_name).
struct PatternTotals {
  int64_t gemm = 0, reduction = 0, elementwise = 0;
};
PatternTotals pattern_totals(const FusionPlan& plan, const TensorProgram& program);

/// Of a plan's kernels with shared memory or scratch: how many, and bytes of a block of each, added
/// up (FusionStitching 2018, table 3; 2019, table 4).
struct ArenaTotals {
  int64_t kernels = 0, bytes = 0, requested = 0;
  int64_t most = 0;  ///< of one kernel
};
ArenaTotals arena_totals(const FusionPlan& plan, const TensorProgram& program);

/// What one kernel of all expressions would read and write: inputs, constants as far as they are
/// read, and outputs, each once, and what opaque steps take and give. A bound from below: what
/// happens in opaque steps is left out.
int64_t compulsory_bytes(const TensorProgram& program, const Target& target);

/// Times that the regions of an opaque step run: the steps of a scan, else 1.
int64_t trip_count(const TensorProgram& program, const OpaqueExpr& opaque);

/// Times that the kernels of its regions run where the opaque step itself runs `times` times: once
/// each where one runs all iterations. Never overflows.
int64_t region_runs(const TensorProgram& program, const OpaqueExpr& opaque,
                    const RegionPlans& regions, int64_t times);

}  // namespace weft

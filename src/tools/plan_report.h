#pragma once

#include <map>
#include <string>

#include "driver/compiler.h"

namespace weft {

struct PlanTotals {
  int64_t ops = 0;                                  ///< nodes of the model
  int64_t memory_kernels = 0, compute_kernels = 0;  ///< in the plan, not launches
  int64_t bytes_read = 0, bytes_written = 0, flops = 0;
  double predicted_us = 0;
};
/// Sums over a run: what stands in a scan counts once a step; branches and while loops once.
PlanTotals plan_totals(const Compilation& c);

/// Times that the regions of an opaque step run: the steps of a scan, else 1.
int64_t trip_count(const TensorProgram& program, const OpaqueExpr& opaque);

/// Kernels of the plan and of its regions by name.
std::map<std::string, const PlannedKernel*> kernels_by_name(const Compilation& c);

/// Names of the model's nodes in a kernel.
std::vector<std::string> origin_names(const TensorProgram& program, const Group& group);

}  // namespace weft

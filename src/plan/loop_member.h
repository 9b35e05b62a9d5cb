#pragma once

#include "plan/fusion_plan.h"

namespace weft {

/// The kernel that runs all iterations of a scan, as one of the program around it.
struct WholeLoop {
  Group group;  ///< no expressions; its outputs are the scan's results
  ScheduledKernel kernel;
};

/// `body` is the plan of the body of opaque expression `opaque`. The kernel's parameters become
/// what the scan takes and gives, and constants that the program has, too (lend_constants). Error
/// (kUnsupported): the plan is none of one kernel, or the program lacks a constant of the body.
Result<WholeLoop> whole_loop(const TensorProgram& program, int32_t opaque, const FusionPlan& body);

}  // namespace weft

#pragma once

#include "group/group_key.h"
#include "plan/fusion_plan.h"

namespace weft {

/// Puts kernels of a CPU into shared launches, in the place of one of them.
///
/// `grid`: kernels that follow each other, with a barrier of all threads before what reads what
/// one before it stores (AStitch §4.2), where that is predicted to take less: those beside each
/// other need no barrier, and a kernel is not begun again.
///
/// `pack`: independent kernels that one thread makes, each too small to be shared out, side by side
/// on several (FusionStitching 2019 §3.1).
///
/// Requires: scheduled kernels of a CPU; `keys` of the program. Establishes: an order that respects
/// the dependences.
Status share_cpu_launches(const TensorProgram& program, const Target& target, Joins joins,
                          GroupKeys& keys, FusionPlan& plan);

}  // namespace weft

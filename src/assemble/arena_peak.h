#pragma once

#include <cstdint>

#include "expr/tensor_program.h"
#include "plan/fusion_plan.h"

namespace weft {

/// Bytes of the arena that the values between the kernels of a plan need, each from the kernel that
/// makes it to the last that reads it: what build_program places, but for workspaces of kernels.
int64_t arena_peak(const TensorProgram& program, const FusionPlan& plan);

/// The same with every expression a kernel of its own, in the order of the program. `in_float32`:
/// 16-bit floats between them are held as the float32 that they are computed in.
int64_t unfused_arena_peak(const TensorProgram& program, bool in_float32);

}  // namespace weft

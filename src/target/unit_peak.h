#pragma once

#include "support/dtype.h"
#include "target/target.h"

namespace weft {

/// GFLOP/s of products whose factors have that type, on a GPU's matrix units where these take it:
/// 16-bit floats, and float32 where it may be rounded to tf32 (Target::reduced_float32); else on
/// plain cores. 0: the device has no units for the type.
double unit_gflops(DType factors, const Target& target);

/// Whether warp groups multiply factors of that type out of shared memory (wgmma): 16-bit floats on
/// compute capability 9.0, and on no later one.
bool multiplies_by_groups(DType factors, const Target& target);

}  // namespace weft

#pragma once

#include "driver/compilation.h"

namespace weft {

/// Makes kernels of the plan's tile programs, those of its regions included, side by side on the
/// cores: Compilation::kernels.
///
/// Where Compilation::other says which numbers come from the binding, they become launch arguments,
/// so that another binding has the same kernels where no tile size changes. A kernel that differs
/// in more than such numbers at the other binding keeps its constants.
Status lower_kernels(Compilation& c);

/// A kernel of the compilation made of another schedule of its group.
Result<KernelFunction> lower_again(const Compilation& c, const CompiledKernel& kernel,
                                   const ScheduledKernel& schedule);

}  // namespace weft

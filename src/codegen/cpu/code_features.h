#pragma once

#include <string>
#include <vector>

#include "kernel/kernel_function.h"
#include "target/target.h"

namespace weft {

/// The features of `target` that generated code may use, sorted: those of the x86-64 levels 2 to 4,
/// and instructions that multiply bytes or bfloat16, or look up bytes. What a processor has beyond
/// them (other instruction sets, hints) stays unused.
std::vector<std::string> code_features(const Target& target);

/// The target without those beyond the x86-64 levels that no instruction of the kernel is for: code
/// for that is the same for processors that differ in them.
Target target_of_kernel(const KernelFunction& kernel, Target target);

/// Those that the code of the kernels needs: the level's, and others where a kernel has
/// instructions for which they are used.
std::vector<std::string> required_features(const Target& target,
                                           const std::vector<const KernelFunction*>& kernels);

/// The target without features beyond the x86-64 levels: code for it runs on every machine of the
/// level.
Target portable(Target target);

/// The target with all the features beyond the x86-64 levels that code for vectors of its kind can
/// use.
Target beyond_level(Target target);

}  // namespace weft

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

/// Those that the code of the kernels needs: the level's, and others where a kernel has
/// instructions for which they are used.
std::vector<std::string> required_features(const Target& target,
                                           const std::vector<const KernelFunction*>& kernels);

/// The target without features beyond the x86-64 levels: code for it runs on every machine of the
/// level.
Target portable(Target target);

}  // namespace weft

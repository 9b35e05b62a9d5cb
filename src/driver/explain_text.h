#pragma once

#include <string>
#include <vector>

#include "driver/compiler.h"

namespace weft {

/// Names of the model's nodes behind one step of the program; an expression without an origin goes
/// by its tensor.
std::vector<std::string> step_names(const TensorProgram& program, int32_t step);

/// Names of the model's nodes in a kernel.
std::vector<std::string> origin_names(const TensorProgram& program, const Group& group);

/// Scopes of a kernel's local values, "register 5, scratch 1".
std::string scope_summary(const PlannedKernel& kernel);

/// The plan to read: kernels in the order in which they run, a sequence that repeats (the layers of
/// a network) once with the number of its repetitions, then the edges between kernels with the
/// reasons why they were cut; reasons that differ in numbers only stand together.
std::string explain_text(const Compilation& c);

}  // namespace weft

#pragma once

#include <string>
#include <vector>

#include "plan/fusion_plan.h"

namespace weft {

/// Names of the model's nodes behind one step of the program; an expression without an origin goes
/// by its tensor.
std::vector<std::string> step_names(const TensorProgram& program, int32_t step);

/// Names of the model's nodes in a kernel.
std::vector<std::string> origin_names(const TensorProgram& program, const Group& group);

/// Names of the tensors that a kernel makes again for itself.
std::vector<std::string> copied_names(const TensorProgram& program, const PlannedKernel& kernel);

/// Scopes of a kernel's local values, "register 5, scratch 1".
std::string scope_summary(const PlannedKernel& kernel);

/// How a GPU's kernel lies on its blocks: each template form of FusionStitching with the statements
/// that have it, "[GRID_4,CTA_32-THREAD_4] x_v, y". Empty for a CPU's.
std::vector<std::string> template_summary(const PlannedKernel& kernel);

/// Why all blocks of a kernel with a barrier of the grid are on the device at once, or why they are
/// not; empty for a kernel without.
std::string residency_proof(const PlannedKernel& kernel, const Target& target);

}  // namespace weft

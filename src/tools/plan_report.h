#pragma once

#include <map>
#include <string>

#include "driver/compiler.h"
#include "driver/plan_totals.h"

namespace weft {

/// Kernels of the plan and of its regions by name.
std::map<std::string, const PlannedKernel*> kernels_by_name(const Compilation& c);

/// Names of the model's nodes in a kernel.
std::vector<std::string> origin_names(const TensorProgram& program, const Group& group);

}  // namespace weft

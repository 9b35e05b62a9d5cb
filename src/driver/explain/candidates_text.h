#pragma once

#include <string>

#include "driver/explain/explained.h"
#include "support/result.h"

namespace weft {

/// What was considered for a kernel of the plan: the templates, their candidates with what was
/// predicted for them, and why each lost. `kernel` is its name, or its number in explain_text.
/// kInvalidInput: there is no such kernel.
Result<std::string> candidates_text(const Explained& c, const std::string& kernel);

}  // namespace weft

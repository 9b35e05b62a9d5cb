#pragma once

#include <string>

#include "driver/compile_options.h"
#include "support/result.h"

namespace weft {

/// Whether --plan names a file with a plan's text, not a planner.
bool is_plan_file(const std::string& plan);

/// Reads such a file into the options. kInvalidInput: it cannot be read, or holds no plan.
Status read_plan_file(const std::string& path, CompileOptions* options);

/// The file's name before an error's line and column.
Error of_plan_file(const CompileOptions& options, Error error);

}  // namespace weft

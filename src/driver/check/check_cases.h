#pragma once

#include <string>
#include <vector>

#include "io/onnx_case.h"
#include "support/result.h"

namespace weft {

struct CheckOptions {
  bool interpreted = false;  ///< by the reference interpreter instead of compiled
  std::string planner = "auto";
  int max_vector_bytes = 0;  ///< 0: the machine's
  Tolerance tolerance;
  int jobs = 0;  ///< cases at a time; 0: one a core
};

/// Runs ONNX backend test folders, and folders of such folders, each case in a process of its own:
/// what crashes or hangs there is a failed case here. kInvalidInput where there is none.
Result<std::vector<CaseResult>> check_cases(const std::vector<std::string>& folders,
                                            const CheckOptions& options);

}  // namespace weft

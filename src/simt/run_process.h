#pragma once

#include <string>
#include <vector>

#include "support/result.h"

namespace weft::simt {

struct ProcessOutput {
  int exit_status = 0;  ///< 128 + the signal for one that was killed
  std::string text;     ///< standard output and standard error, in the order of writing
};

/// Runs `arguments` (the first is looked for along PATH) with `input` as its standard input, and
/// waits. kMissingDevice when it cannot be started.
Result<ProcessOutput> run_process(const std::vector<std::string>& arguments,
                                  const std::string& input = "");

}  // namespace weft::simt

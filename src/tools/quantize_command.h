#pragma once

#include <CLI/CLI.hpp>

#include "support/result.h"

namespace weft {

/// Adds `weft quantize`; the callback leaves its result in `status`.
void add_quantize_command(CLI::App& app, Status& status);

}  // namespace weft

#pragma once

#include <functional>

#include "driver/compile_options.h"

namespace weft {

/// Shows on stderr how far a compilation is, once it has taken half a second, and takes the line
/// away when it is done or ends. Empty where stderr is no terminal.
std::function<void(const CompileProgress&)> progress_bar();

}  // namespace weft

#pragma once

#include <vector>

#include "driver/compilation.h"
#include "driver/page/page.h"

namespace weft {

/// The texts of a compilation's kernels for a page, in the order of explain_json. Those that cost
/// most have all; where the texts of all would make the page too large, the cheaper ones lack the
/// levels below the tile program, and long ones are cut at a line that says so.
///
/// Requires: kernels with their instructions, as a compilation without a cache leaves them.
Result<std::vector<KernelTexts>> kernel_texts(const Compilation& c);

}  // namespace weft

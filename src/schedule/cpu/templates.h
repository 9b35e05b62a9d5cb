#pragma once

#include <span>

#include "schedule/writer/template.h"

namespace weft {

/// The templates of a CPU: register tiles of one reduction or of products side by side (panel),
/// then rows, columns and element-wise chains (sweep).
std::span<const Template> cpu_templates();

}  // namespace weft

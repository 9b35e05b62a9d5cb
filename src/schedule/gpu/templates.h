#pragma once

#include <span>

#include "schedule/writer/template.h"

namespace weft {

/// The templates of a GPU; the first that builds a group has it.
std::span<const Template> gpu_templates();

}  // namespace weft

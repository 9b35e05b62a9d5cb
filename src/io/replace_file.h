#pragma once

#include <span>
#include <string>
#include <vector>

#include "support/result.h"

namespace weft {

/// Writes the parts one after the other to a new file beside `path` and renames it to `path`. On
/// failure (kInvalidInput, with the system's reason) nothing is left behind and an older file
/// stays.
Status replace_file(const std::string& path, const std::vector<std::span<const std::byte>>& parts);

}  // namespace weft

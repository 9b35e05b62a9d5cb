#pragma once

#include <string>
#include <vector>

namespace weft {

/// File names for outputs: characters other than letters, digits, '.', '_', '-' become '_';
/// collisions get "_1", "_2".
std::vector<std::string> file_names(const std::vector<std::string>& names);

}  // namespace weft

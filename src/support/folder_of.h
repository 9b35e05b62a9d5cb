#pragma once

#include <filesystem>
#include <string>

namespace weft {

/// The folder that a file lies in, "." for a name alone: where a model's external data are.
inline std::string folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace weft

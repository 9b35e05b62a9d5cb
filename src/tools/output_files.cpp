#include "tools/output_files.h"

#include <set>

namespace weft {

std::vector<std::string> file_names(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  std::set<std::string> used;
  for (const std::string& name : names) {
    std::string clean;
    for (const char c : name) {
      const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
      clean += fine ? c : '_';
    }
    std::string unique = clean;
    for (int n = 1; !used.insert(unique).second; ++n) unique = clean + "_" + std::to_string(n);
    out.push_back(unique);
  }
  return out;
}

}  // namespace weft

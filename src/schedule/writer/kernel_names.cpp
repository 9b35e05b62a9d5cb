#include "schedule/writer/kernel_names.h"

namespace weft {

std::string KernelNames::identifier(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool fine =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    out += fine ? c : '_';
  }
  if (out.empty() || (out[0] >= '0' && out[0] <= '9')) out = "t" + out;
  return out.size() > 24 ? out.substr(out.size() - 24) : out;
}

std::string KernelNames::unique(const std::string& base) {
  const std::string clean = identifier(base);
  // A trailing letter keeps `t_1` and the second `t` apart.
  for (;;) {
    const int n = given_[clean]++;
    const std::string name = n == 0 ? clean : clean + "_" + std::to_string(n) + "n";
    if (n == 0 || given_.find(name) == given_.end()) {
      given_[name]++;
      return name;
    }
  }
}

std::string asked_name(size_t number) { return kAskedMark + std::to_string(number) + kAskedMark; }

}  // namespace weft

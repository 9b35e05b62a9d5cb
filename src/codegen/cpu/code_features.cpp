#include "codegen/cpu/code_features.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

namespace weft {

std::vector<std::string> code_features(const Target& target) {
  static constexpr std::array<std::string_view, 17> kUsed = {
      "avx",  "avx2", "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "bmi",  "bmi2",
      "f16c", "fma",  "lzcnt",    "popcnt",   "sse3",     "sse4.1",  "sse4.2",   "ssse3"};
  std::vector<std::string> used;
  std::ranges::copy_if(target.features, std::back_inserter(used), [](const std::string& feature) {
    return std::ranges::find(kUsed, feature) != kUsed.end();
  });
  std::ranges::sort(used);
  return used;
}

}  // namespace weft

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::hlo {

/// Undoes a permutation: inverse[permutation[i]] = i.
inline std::vector<int64_t> inverse_permutation(const std::vector<int64_t>& permutation) {
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  }
  return inverse;
}

}  // namespace weft::hlo

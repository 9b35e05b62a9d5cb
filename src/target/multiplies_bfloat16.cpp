#include "target/multiplies_bfloat16.h"

#include <algorithm>

namespace weft {

bool multiplies_bfloat16(const Target& target) {
  return std::ranges::find(target.features, "avx512bf16") != target.features.end();
}

}  // namespace weft

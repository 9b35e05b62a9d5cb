#include "choice/composition_kinds.h"

#include <algorithm>
#include <string>

namespace weft {

Result<CompositionKinds> parse_composition_kinds(std::string_view text) {
  CompositionKinds kinds;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    bool* const kind = name == "leaf"      ? &kinds.leaf
                       : name == "block"   ? &kinds.block
                       : name == "grid"    ? &kinds.grid
                       : name == "chain"   ? &kinds.chain
                       : name == "recur"   ? &kinds.recur
                       : name == "cluster" ? &kinds.cluster
                                           : nullptr;
    if (kind == nullptr) {
      return invalid_input(
          "unknown composition '" + std::string(name) +
          "'; known: leaf, block, grid, chain, recur and cluster, as in leaf,block");
    }
    *kind = true;
    begin = end + 1;
  }
  return kinds;
}

}  // namespace weft

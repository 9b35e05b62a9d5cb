#pragma once

#include <functional>

namespace weft {

/// What is asked of a search for a chain (compose_chain).
struct ChainSearch {
  bool deep_only = false;  ///< flat tiling expressions are left out
  /// Microseconds that a chain of contractions has to take less than, asked when one is built:
  /// where that is far slower no other is looked for. Empty: any will do. On GPUs all are looked
  /// for.
  std::function<double()> most_us;
};

}  // namespace weft

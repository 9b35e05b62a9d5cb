#pragma once

#include <string_view>

#include "support/result.h"

namespace weft {

/// Kinds of compositions that a planner may try for a group of several expressions.
struct CompositionKinds {
  bool leaf = false, block = false;
  bool grid = false;   ///< kernels one after another in one launch
  bool chain = false;  ///< contractions in a loop that carries
  bool recur = false;  ///< all iterations of a loop in one launch
  /// Launches of kernels one after another, and of loops with `recur`, on the blocks of one
  /// cluster.
  bool cluster = false;
};

/// `leaf,block,grid,chain,recur,cluster`: names apart by commas, in any order. Error
/// (kInvalidInput): a name of none, or no name.
Result<CompositionKinds> parse_composition_kinds(std::string_view text);

}  // namespace weft

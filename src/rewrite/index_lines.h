#pragma once

#include <optional>
#include <vector>

#include "rewrite/graph_rebuilder.h"

namespace weft {

/// Integers of a tensor that are the same along all axes but one: rows of an image, say, in the
/// grid of all its places.
struct IndexLine {
  int axis = -1;                ///< of the tensor; -1: all are the same
  std::vector<int64_t> values;  ///< along the axis, or the one value
};

/// What tuples that lie along the last axis of `tuples` have, a line for each place in them, where
/// movement and arithmetic make them of constants. Frameworks write the places of a slice so, and
/// the grid of them is too large to be made when it is compiled. Nothing where a place varies along
/// several axes, or is not known.
std::optional<std::vector<IndexLine>> lines_of_tuples(const GraphRebuilder& rebuild,
                                                      ValueId tuples);

}  // namespace weft

#pragma once

#include <map>
#include <set>

#include "group/cut_group.h"

namespace weft {

/// Axes that everything walks together: two variables (outer, inner) of an expression, a dimension
/// and the next one of a tensor.
struct AxisPairs {
  std::map<size_t, std::map<int, int>> variables;  ///< by expression; the inner one by the outer
  std::map<TensorId, std::set<int>> dims;          ///< the first of two
};

/// Makes one axis of each pair.
///
/// Requires: no axis is in two pairs; where an expression has a pair, its indices use the two as
/// `outer * extent + inner`, or as neighbours in dimensions that are a pair, too.
void merge_axis_pairs(GroupCut& cut, const AxisPairs& pairs);

}  // namespace weft

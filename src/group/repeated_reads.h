#pragma once

#include <set>
#include <vector>

#include "group/group_axes.h"

namespace weft {

/// A tensor that a group reads from memory and that stays the same along some free axes of extent
/// > 1: a weight of a normalisation along its rows.
struct RepeatedRead {
  TensorId tensor = -1;
  double bytes = 0;
  std::set<int> still;  ///< the axes along which it stays the same
  int64_t longest = 1;  ///< extent of the longest axis along which it does not
};
std::vector<RepeatedRead> repeated_reads(const TensorProgram& program, const Group& group,
                                         const GroupAxes& axes, const std::vector<int>& free);

/// The axes along which blocks should take several boxes of the grid one after another, so that
/// most of what is read again can be kept. None where nothing is.
std::set<int> axes_to_walk(const std::vector<RepeatedRead>& reads, const GroupAxes& axes);

}  // namespace weft

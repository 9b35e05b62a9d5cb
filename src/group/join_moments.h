#pragma once

#include <set>
#include <vector>

#include "group/central_moments.h"

namespace weft {

/// A group whose sums and second moments are made together: levels as join_sweeps gives them, each
/// sum in one pair at most.
struct JoinedGroup {
  GroupAxes axes;
  std::vector<CentralMoment> moments;
  /// Members that nothing needs any more: what only the second moments read.
  std::set<int> unused;
  const CentralMoment* with_sum(int position) const;
  const CentralMoment* with_second(int position) const;
};
JoinedGroup join_moments(const TensorProgram& program, const Group& group, const GroupAxes& axes);

}  // namespace weft
